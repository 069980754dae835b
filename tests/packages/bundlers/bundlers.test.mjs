// What bundlers make of a program that takes a lock, by the one line for each in docs/node.md: started, it takes one.
// Not among the other tests, as it fetches them: run `make test-bundlers`, which packs the package first.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { after, before, test } from "../../node/testing.mjs";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));
let folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "redlock-bundlers-"));
  await cp(fileURLToPath(new URL(".", import.meta.url)), folder, { recursive: true });
  const dist = join(root, "target", "bundlers");
  const packed = (await readdir(dist)).filter((name) => name.endsWith(".tgz"));
  assert.equal(packed.length, 2, "run make test-bundlers");
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"];
  const tarballs = packed.map((name) => join(dist, name));
  await run("npm", ["install", ...quiet, ...tarballs], { cwd: folder, timeout: 300_000 });
});

after(() => rm(folder, { recursive: true, force: true }));

const BUNDLERS = {
  esbuild: [
    "esbuild app.mjs --bundle --platform=node --external:redlock-native --outfile=out/esbuild.js",
    "esbuild.js",
  ],
  webpack: ["webpack", "webpack.js"],
  rollup: [
    "rollup app.mjs --external redlock-native --format cjs --file out/rollup.js",
    "rollup.js",
  ],
  ncc: ["ncc build app.mjs --external redlock-native --out out/ncc", "ncc/index.mjs"],
  bun: [
    "bun build app.mjs --target=node --external redlock-native --outfile out/bun.mjs",
    "bun.mjs",
  ],
  // By default: it bundles no packages for a server.
  vite: ["vite build --ssr app.mjs --outDir out/vite", "vite/app.mjs"],
};

for (const [name, [line, output]] of Object.entries(BUNDLERS)) {
  test(name, async () => {
    const [command, ...args] = line.split(" ");
    const tool = join(folder, "node_modules", ".bin", command);
    await run(tool, args, { cwd: folder, timeout: 60_000 });
    const file = join(folder, "out", output);
    const { stdout } = await run(process.execPath, [file], { cwd: folder, timeout: 20_000 });
    assert.equal(stdout, "lock:job true\n");
  });
}

test("the lines are those of docs/node.md", async () => {
  const page = await readFile(join(root, "docs", "node.md"), "utf8");
  for (const [name, [line]] of Object.entries(BUNDLERS)) {
    const [option] = /--external.redlock-native/.exec(line) ?? [
      name === "vite" ? "nothing" : "externals:",
    ];
    const row = page
      .split("\n")
      .find((each) => each.startsWith(`| ${name} |`.replace("vite", "Vite")));
    assert.ok(row?.includes(option), `${name}: ${option}`);
  }
});
