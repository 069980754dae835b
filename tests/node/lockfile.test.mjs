// The committed lock file: `npm ci` accepts it unchanged, and it names no registry.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { test } from "./testing.mjs";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const { packages } = createRequire(import.meta.url)("../../package-lock.json");
const { "": _, ...installed } = packages;

test("npm ci accepts the lock file offline", async () => {
  const folder = await mkdtemp(join(tmpdir(), "redlock-lockfile-"));
  try {
    for (const file of ["package.json", "package-lock.json", ".npmrc"]) {
      await copyFile(join(root, file), join(folder, file));
    }
    const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--cache", join(folder, "cache")];
    const args = ["ci", "--dry-run", "--offline", ...quiet];
    // It refuses a file that lacks a package, even one for another platform. Everything that `npm ci` would install is
    // present here.
    const { stdout } = await run("npm", args, { cwd: folder, timeout: 60_000 });
    assert.match(stdout, /added \d+ packages/);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("every package has a fixed version, a hash and no registry address", () => {
  assert.ok(Object.keys(installed).length > 50);
  const unhashed = [];
  for (const [place, entry] of Object.entries(installed)) {
    assert.match(entry.version, /^\d+\.\d+\.\d+/, place);
    assert.equal(entry.resolved, undefined, place);
    if (!/^sha512-[\w+/]{86}==$/.test(entry.integrity)) unhashed.push([place, entry]);
  }
  // The registry that created the file has no binaries of these three tools for other platforms.
  for (const [place, { optional, dev, os, cpu, libc }] of unhashed) {
    assert.match(place, /^node_modules\/(@biomejs\/cli|@napi-rs\/(lzma|tar|wasm-tools))-/);
    assert.ok(optional && dev, place);
    assert.notDeepEqual([os, cpu, libc], [["linux"], ["x64"], ["glibc"]], place);
  }
});
