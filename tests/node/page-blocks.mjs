// Reads the code blocks of the pages in docs/.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const docs = fileURLToPath(new URL("../../docs", import.meta.url));

/** Returns the blocks of all pages below a folder of docs/, without the indentation of a tab. */
export async function pageBlocks(folder = "") {
  const found = [];
  const entries = await readdir(join(docs, folder), { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== ".venv") found.push(...(await pageBlocks(name)));
    if (!entry.name.endsWith(".md")) continue;
    const text = await readFile(join(docs, name), "utf8");
    for (const match of text.matchAll(/^( *)```(\w+)(?: (\S+))?\n(.*?)^\1```$/gms)) {
      const [, indent, language, file = "", indented] = match;
      const code = indented.replace(new RegExp(`^${indent}`, "gm"), "");
      found.push({ page: name, language, file, code });
    }
  }
  return found;
}
