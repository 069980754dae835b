// The messages for an unusable binary. Each case is reproduced in a copy of the package without the binary.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { after, before, describe, test } from "./testing.mjs";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const require = createRequire(import.meta.url);
const manifest = require("../../package.json");
const { explanation, PLATFORMS } = require("../../bindings-node/dist/load/binary.js");
const { version } = manifest;
const built = join(root, "bindings-node", "dist");

let folder;
/** The file name of this platform's binary, and its package. */
let file;
let ours;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "redlock-binary-"));
  file = (await readdir(built)).find((name) => name.endsWith(".node"));
  ours = file.replace(/^redlock-native\./, "").replace(/\.node$/, "");
});

after(() => rm(folder, { recursive: true, force: true }));

/** The message of each case, without the parts that depend on the machine. */
const messages = new Map();

function kept(what, message) {
  if (messages.has(what)) return;
  const list = PLATFORMS.join(", ");
  const plain = message
    .replaceAll(list, "PLATFORMS")
    .replaceAll(`redlock-native-${ours}`, "redlock-native-PLATFORM")
    .replaceAll(ours, "PLATFORM")
    .replaceAll(`${process.platform}-${process.arch}`, "PLATFORM")
    .replace(/\w+-ppc64/g, "OTHER")
    .replace(/\(\S*\/redlock-native\.[^)]*\)/, "(SYSTEM ERROR)")
    .replaceAll(version, "VERSION")
    .replaceAll("`", "'")
    .replace(/v\d+\.\d+\.\d+/g, "NODE");
  messages.set(what, plain);
}

/** A folder with the package as npm would install it, and these platform packages beside it. */
async function installed({ platforms = {}, as = version } = {}) {
  const place = await mkdtemp(join(folder, "case-"));
  const modules = join(place, "node_modules");
  const main = join(modules, "redlock-native");
  await cp(join(root, "bindings-node"), join(main, "bindings-node"), {
    recursive: true,
    filter: (from) => !/\.node$|[/\\](src|npm|pages-[^/]*)$/.test(from),
  });
  await cp(join(root, "bindings-node", "index.mjs"), join(main, "bindings-node", "index.mjs"));
  await writeFile(join(main, "package.json"), JSON.stringify({ ...manifest, version: as }));
  for (const [platform, bytes] of Object.entries(platforms)) {
    const at = join(modules, `redlock-native-${platform}`);
    const binary = `redlock-native.${platform}.node`;
    await mkdir(at);
    const described = { name: `redlock-native-${platform}`, version, main: binary };
    await writeFile(join(at, "package.json"), JSON.stringify(described));
    if (bytes !== undefined) await writeFile(join(at, binary), bytes);
  }
  return place;
}

/** Returns the output of a program there. `flags` are Node's, and `first` runs before it. */
async function told(place, { flags = [], first = "", program = 'require("redlock-native")' } = {}) {
  const text = `${first};
    try { ${program}; console.log(JSON.stringify({ loaded: true })); }
    catch ({ message, code, cause }) {
      console.log(JSON.stringify({ message, code, cause: String(cause) }));
    }`;
  await writeFile(join(place, "program.cjs"), text);
  const { stdout } = await run(process.execPath, [...flags, "program.cjs"], { cwd: place });
  const { message, code, loaded, cause } = JSON.parse(stdout);
  assert.equal(loaded, undefined, "it was loaded");
  assert.equal(code, "ERR_REDLOCK_BINARY", message);
  assert.ok(!message.includes("\n") && message.length < 800, message);
  return { message, cause };
}

const pretend = (name, value) => `Object.defineProperty(process, "${name}", { value: "${value}" })`;

describe("the error for an unusable binary explains the cause:", () => {
  test("the optional dependency is missing", async () => {
    const { message, cause } = await told(await installed());
    kept("the optional dependency is missing", message);
    assert.match(message, new RegExp(`^cannot load redlock-native ${version}: its optional`));
    for (const words of [
      `redlock-native-${ours} is not installed`,
      "--omit=optional",
      "external",
    ]) {
      assert.ok(message.includes(words), message);
    }
    assert.ok(message.includes(`npm install redlock-native-${ours}@${version}`), message);
    for (const platform of PLATFORMS) assert.ok(message.includes(platform), message);
    assert.ok(message.endsWith(`Node.js ${process.version}.`), message);
    assert.match(cause, /native binding/);
  });

  test("an ES module gets the same error", async () => {
    const place = await installed();
    await writeFile(join(place, "program.mjs"), 'import "redlock-native";');
    await assert.rejects(run(process.execPath, ["program.mjs"], { cwd: place }), ({ stderr }) => {
      assert.match(stderr, /Error: cannot load redlock-native .*: its optional dependency/);
      return true;
    });
  });

  test("a program that catches the import error continues", async () => {
    const place = await installed();
    for (const entry of ["redlock-native", "redlock-native/testing"]) {
      // Node.js 20 reported the exception of a statically imported module a second time, as uncaught.
      await writeFile(join(place, "library.mjs"), `export * from "${entry}";`);
      for (const imported of [entry, "./library.mjs"]) {
        const program = `
          await import("${imported}").catch(({ code }) => console.log("caught", code));
          setImmediate(() => console.log("goes on"));
        `;
        await writeFile(join(place, "program.mjs"), program);
        const { stdout } = await run(process.execPath, ["program.mjs"], { cwd: place });
        assert.equal(stdout, "caught ERR_REDLOCK_BINARY\ngoes on\n");
      }
    }
  });

  test("node_modules belongs to another platform", async () => {
    const place = await installed({ platforms: { "darwin-arm64": "text", "win32-x64-msvc": "" } });
    const { message } = await told(place);
    kept("`node_modules` belongs to another platform", message);
    const others = "(found redlock-native-darwin-arm64, redlock-native-win32-x64-msvc, not";
    assert.ok(message.includes(`${others} redlock-native-${ours}`), message);
    assert.ok(message.includes(".dockerignore"), message);
  });

  test("the package is installed without its file", async () => {
    const { message } = await told(await installed({ platforms: { [ours]: undefined } }));
    kept("the package is installed without its file", message);
    assert.match(message, /is installed, but its \.node file is missing/);
  });

  test("no binary exists for this architecture or system", async () => {
    const place = await installed();
    const arch = await told(place, { first: pretend("arch", "ppc64") });
    kept("no binary exists for this architecture or system", arch.message);
    assert.match(arch.message, /there is no binary for (\w+)-ppc64\. Binaries .* This is \1-ppc64/);
    const system = await told(place, { first: pretend("platform", "sunos") });
    assert.match(system.message, /there is no binary for sunos-/);
  });

  test("node_modules belongs to glibc, but the system uses musl", async () => {
    const report = "process.report.getReport = () => ({ header: {}, sharedObjects: [] })";
    const place = await installed({ platforms: { [ours]: "text" } });
    const { message } = await told(place, { first: report });
    kept("`node_modules` belongs to glibc, but the system uses musl (Alpine)", message);
    const musl = ours.replace("-gnu", "-musl");
    assert.ok(message.includes(`(found redlock-native-${ours}, not redlock-native-${musl}). Run`));
    assert.match(message, /This is linux-\w+ with musl/);
  });

  test("the optional dependency is missing on musl", async () => {
    const report = "process.report.getReport = () => ({ header: {}, sharedObjects: [] })";
    const { message } = await told(await installed(), { first: report });
    assert.match(message, /redlock-native-linux-\w+-musl is not installed/);
  });

  test("the file is truncated, empty or not a binary", async () => {
    const bytes = await readFile(join(built, file));
    for (const damaged of [
      bytes.subarray(0, 40),
      bytes.subarray(0, 5000),
      bytes.subarray(0, -1),
      "",
      "no binary at all, but long enough to be read",
    ]) {
      const { message } = await told(await installed({ platforms: { [ours]: damaged } }));
      kept("the file is truncated, empty or not a binary", message);
      assert.match(message, /its binary is damaged or belongs to another platform \(.*\)\. Remove/);
    }
  });

  test("a file for the other C library only matters if it is the one to load", async () => {
    const bytes = await readFile(join(built, file));
    const musl = ours.replace("-gnu", "-musl");
    const cut = bytes.subarray(0, 5000);
    const alone = await told(await installed({ platforms: { [musl]: cut } }));
    assert.match(alone.message, /its binary is damaged/);
    const both = await installed({ platforms: { [ours]: bytes, [musl]: cut } });
    await assert.rejects(told(both), /it was loaded/);
    const report = "process.report.getReport = () => ({ header: {}, sharedObjects: [] })";
    const there = await told(both, { first: report });
    assert.match(there.message, /its binary is damaged/);
  });

  test("the C library is too old, or the system reports another error", async () => {
    const place = await installed({ platforms: { [ours]: "text" } });
    const says = (text) => `process.dlopen = () => {
      throw Object.assign(new Error(${JSON.stringify(text)}), { code: "ERR_DLOPEN_FAILED" });
    }`;
    const old = "/lib/libc.so.6: version `GLIBC_2.28' not found (required by redlock-native)";
    const { message } = await told(place, { first: says(old) });
    kept("the C library is too old", message);
    assert.match(message, /C library is too old \(.*GLIBC_2\.28.*\)\. glibc 2\.17/);
    const other = await told(place, { first: says("out of file descriptors\nsecond line") });
    kept("the system reports another error", other.message);
    assert.match(other.message, /the system cannot load its binary \(out of file descriptors\)/);
  });

  test("the permission model or --no-addons forbids addons", async () => {
    const bytes = await readFile(join(built, file));
    const place = await installed({ platforms: { [ours]: bytes } });
    const [major] = process.versions.node.split(".").map(Number);
    const model = major >= 24 ? "--permission" : "--experimental-permission";
    for (const flags of [[model, "--allow-fs-read=*"], ["--no-addons"]]) {
      const { message } = await told(place, { flags: ["--no-warnings", ...flags] });
      kept("addons are not allowed", message);
      assert.match(message, /without permission to load native addons .*Add --allow-addons/);
    }
  });

  test("the binary belongs to another version", async () => {
    const bytes = await readFile(join(built, file));
    const place = await installed({ platforms: { [ours]: bytes }, as: "0.0.9" });
    const { message } = await told(place);
    kept("the binary belongs to another version", message);
    assert.ok(
      message.startsWith(`redlock-native 0.0.9 found the binary of ${version}. Both must`),
      message,
    );
  });

  test("a binary of the same version is loaded", async () => {
    const bytes = await readFile(join(built, file));
    const place = await installed({ platforms: { [ours]: bytes } });
    await assert.rejects(told(place), /it was loaded/);
  });
});

test("a binary that may not be read is reported", () => {
  const denied = Object.assign(new Error("Access to this API"), { code: "ERR_ACCESS_DENIED" });
  const facts = { platform: "linux", arch: "x64", musl: false, node: "v24.0.0", version };
  const text = explanation({ ...facts, errors: [denied], installed: [] });
  kept("the binary may not be read", text);
  assert.match(
    text,
    /permission model of Node\.js does not allow reading the binary .*--allow-fs-read/,
  );
});

test("a permission that Deno refuses is named", () => {
  const refused = (kind, what) =>
    new Error(`Requires ${kind} access to "${what}", run again with the --allow-${kind} flag`);
  const facts = { platform: "linux", arch: "x64", musl: false, node: "v26.3.0", version };
  const missing = (cause) => new Error("Cannot find native binding", { cause });
  const rows = {
    // As Deno 2.9 reports them: directly, and as the cause of the loader's errors.
    env: [refused("env", "NAPI_RS_WASI_FLAVOR")],
    ffi: [missing(missing(refused("ffi", "/app/redlock-native.linux-x64-gnu.node")))],
    read: [missing(undefined), refused("read", "/app/node_modules")],
    sys: [refused("sys", "cpus")],
  };
  for (const [kind, errors] of Object.entries(rows)) {
    const text = explanation({ ...facts, errors, installed: [] });
    kept(`Deno refuses ${kind}`, text);
    assert.match(
      text,
      new RegExp(`Deno does not permit it .Requires ${kind} access to .*--allow-${kind} flag`),
    );
    assert.doesNotMatch(text, /not installed|missing/);
  }
  const loop = new Error("its own cause");
  loop.cause = loop;
  assert.match(explanation({ ...facts, errors: [loop], installed: [] }), /is not installed/);
});

test("the messages are those of tests/vectors/binary.txt", async () => {
  const vectors = await readFile(join(root, "tests", "vectors", "binary.txt"), "utf8");
  // If they differ, `node --test tests/node/binary.test.mjs` prints the text to copy.
  const text = [...messages].map(([what, message]) => `${what}\n    ${message}\n`).join("");
  assert.equal(vectors, text, text);
});

test("the platforms match the build targets of the package", () => {
  const cpu = { x86_64: "x64", aarch64: "arm64" };
  const names = manifest.napi.targets.map((triple) => {
    const [machine, , system, abi] = triple.split("-");
    const name = { linux: "linux", darwin: "darwin", windows: "win32" }[system];
    return [name, cpu[machine], abi].filter(Boolean).join("-");
  });
  assert.deepEqual(names.sort(), [...PLATFORMS].sort());
});
