// An empty folder with the packages of dist/, installed as a new user would.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const run = promisify(execFile);
export const root = fileURLToPath(new URL("../../..", import.meta.url));
export const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"];

/** The tarballs that `make wheels` left: the package, and the one for this platform. */
export async function tarballs() {
  const dist = join(root, "dist");
  const names = await readdir(dist).catch(() => assert.fail("there is no dist/: run make wheels"));
  const packed = names.filter((name) => name.endsWith(".tgz")).map((name) => join(dist, name));
  assert.equal(packed.length, 2, String(packed));
  const main = packed.find((name) => /redlock-native-\d/.test(name));
  return { main, platform: packed.find((name) => name !== main) };
}

/** Copies this folder outside the tree, and installs the tarballs and the tools of package.json there. */
export async function install() {
  const folder = await mkdtemp(join(tmpdir(), "redlock-packages-"));
  const { main, platform } = await tarballs();
  await cp(fileURLToPath(new URL(".", import.meta.url)), folder, { recursive: true });
  await run("npm", ["install", ...quiet, main, platform], { cwd: folder });
  return folder;
}
