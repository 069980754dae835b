// Bundles a program that takes a lock with each bundler and its one line in docs/reference/node-details.md. The bundled
// program must take a lock. They are separate from the other tests because they download the bundlers. Run
// `make test-bundlers`, which packs the package first.
import assert from "node:assert/strict";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "../../node/testing.mjs";
import { installed, root, run } from "./place.mjs";

let folder;

before(async () => {
  folder = await installed("package.json", "app.mjs", "webpack.config.cjs");
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
  // By default it bundles no packages for a server.
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

test("the lines are those of docs/reference/node-details.md", async () => {
  const page = await readFile(join(root, "docs", "reference", "node-details.md"), "utf8");
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
