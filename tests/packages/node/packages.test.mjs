// The packages from a new user's view: installed from their tarballs into an empty folder, and used in every way. They
// are separate from the other tests because they download the tools of package.json. Run `npm run test:packages`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { install, quiet, root, run, tarballs } from "./install.mjs";

let folder;
let main;
let platform;

before(async () => {
  ({ main, platform } = await tarballs());
  folder = await install();
  await cp(join(root, "examples", "server", "express"), join(folder, "express"), {
    recursive: true,
    filter: (file) => !file.includes("node_modules") && !file.endsWith(".json"),
  });
});

after(() => rm(folder, { recursive: true, force: true }));

/** Runs a tool of the folder. Returns its output if it succeeded. */
async function tool(name, ...args) {
  const file = name.includes("node_modules") ? name : join("node_modules", ".bin", name);
  const options = { cwd: folder, env: { ...process.env, NODE_OPTIONS: "--expose-gc" } };
  const { stdout, stderr } = await run(join(folder, file), args, options).catch((error) =>
    assert.fail(`${name} ${args.join(" ")}\n${error.stdout}${error.stderr}`),
  );
  return stdout + stderr;
}

/** Runs a program of the folder, which takes a lock and reports it. */
async function takesLock(...args) {
  const { stdout } = await run(process.execPath, args, { cwd: folder, timeout: 20_000 });
  assert.equal(stdout, "lock:job true\n");
}

describe("Node", () => {
  test("require", () => takesLock("lock.cjs"));
  test("import", () => takesLock("lock.mjs"));
  test("both entry points share one copy, in CommonJS and in ES modules", () =>
    takesLock("testing.mjs"));
});

describe("TypeScript", () => {
  const settings = [
    ["node16", ["script", "module"], "node16"],
    ["nodenext", ["script", "module"], "nodenext"],
    ["bundler", ["module"], "esnext"],
    ["node", ["script"], "commonjs"],
  ];
  const sources = { script: "typescript/script.ts", module: "typescript/module.mts" };
  const outputs = { script: "script.js", module: "module.mjs" };
  for (const [resolution, kinds, module] of settings) {
    test(`moduleResolution ${resolution}`, async () => {
      const outDir = `out-${resolution}`;
      const flags = ["--module", module, "--moduleResolution", resolution, "--outDir", outDir];
      const files = kinds.map((kind) => sources[kind]);
      await tool("tsc", "--strict", "--target", "es2022", "--types", "node", ...flags, ...files);
      for (const kind of kinds) await takesLock(join(outDir, outputs[kind]));
    });
  }

  test("compiles without the types of Node.js and of the DOM", () =>
    tool("tsc", "-p", join("typescript", "bare.json")));

  test("5.0, the oldest that is promised", { timeout: 180_000 }, async () => {
    const types = ["tests", "node", "types"];
    await cp(join(root, ...types), join(folder, ...types), { recursive: true });
    // In a separate folder, because its command has the same name as the newer one's.
    const place = join(folder, "oldest");
    await mkdir(place);
    await run("npm", ["install", "--prefix", place, ...quiet, "typescript@5.0.4"], { cwd: place });
    const tsc = join("oldest", "node_modules", ".bin", "tsc");
    assert.match(await tool(tsc, "--version"), /^Version 5\.0\./);
    await tool(tsc, "-p", join(...types, "oldest.json"));
  });

  test("ts-node", async () => {
    const args = ["--compilerOptions", '{"module":"commonjs"}', "typescript/script.ts"];
    assert.equal(await tool("ts-node", ...args), "lock:job true\n");
  });
});

describe("test runners", () => {
  for (const [project, passed] of [
    ["jest", 2],
    ["ts-jest", 1],
  ]) {
    test(project, async () => {
      const printed = await tool(
        "jest",
        "--runInBand",
        "--rootDir",
        project,
        "-c",
        `${project}/jest.config.cjs`,
      );
      assert.match(printed, new RegExp(`Tests: +${passed} passed, ${passed} total`));
      assert.doesNotMatch(printed, /did not exit|open handle/);
    });
  }
});

test("the Express example: of ten requests at once, one gets the lock", async () => {
  const env = { ...process.env, PORT: "0", REDIS_URL: "memory://" };
  const server = spawn(process.execPath, ["express/server.mjs"], { cwd: folder, env });
  try {
    const [line] = await once(server.stdout, "data");
    const url = `${String(line).match(/http:\S+/)[0]}/job`;
    const post = async () => (await fetch(url, { method: "POST" })).status;
    const codes = await Promise.all(Array.from({ length: 10 }, post));
    assert.deepEqual(codes.sort(), [200, ...Array(9).fill(409)]);
    const ended = once(server, "exit");
    server.kill("SIGTERM");
    assert.deepEqual(await ended, [0, null]);
  } finally {
    server.kill("SIGKILL");
  }
});

describe("what linters say of the tarballs", () => {
  test("publint", async () => {
    for (const tarball of [main, platform]) {
      const printed = await tool("publint", "--strict", tarball);
      assert.match(printed, /All good/);
    }
  });

  test("arethetypeswrong", async () => {
    assert.match(await tool("attw", "--format", "ascii", main), /No problems found/);
  });
});

test("the main package is flat, and the platform's one contains the binary", async () => {
  const list = async (tarball) => (await run("tar", ["-tzf", tarball])).stdout.trim().split("\n");
  const [files, binary] = [await list(main), await list(platform)];
  const types = ["index", "testing", "otel"].flatMap((name) => [`${name}.d.ts`, `${name}.d.mts`]);
  const entries = ["index.js", "index.mjs", "testing.js", "testing.mjs", "otel.js", "otel.mjs"];
  const code = [...entries, "command-line.mjs", "loaded.js", "native.js"];
  const licenses = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES"];
  const all = [...code, ...types, ...licenses, "README.md", "package.json"];
  assert.deepEqual(files.sort(), all.map((name) => `package/${name}`).sort());
  for (const file of [...licenses, "sbom.cdx.json"]) {
    assert.ok(binary.includes(`package/${file}`), file);
  }
  assert.equal(binary.filter((file) => file.endsWith(".node")).length, 1);
});
