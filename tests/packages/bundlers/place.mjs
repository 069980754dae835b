// An empty folder with the package that `make test-bundlers` packed, and the tools of a package.json.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const run = promisify(execFile);
export const root = fileURLToPath(new URL("../../..", import.meta.url));

/** The folder, with copies of these files or folders. */
export async function installed(...files) {
  const folder = await mkdtemp(join(tmpdir(), "redlock-bundlers-"));
  for (const file of files) {
    const from = fileURLToPath(new URL(file, import.meta.url));
    await cp(from, join(folder, file.split("/").at(-1)), { recursive: true });
  }
  const packed = join(root, "target", "bundlers");
  const names = await readdir(packed).catch(() => []);
  const tarballs = names.filter((name) => name.endsWith(".tgz")).map((name) => join(packed, name));
  assert.equal(tarballs.length, 2, "run make test-bundlers");
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"];
  await run("npm", ["install", ...quiet, ...tarballs], { cwd: folder, timeout: 300_000 });
  return folder;
}
