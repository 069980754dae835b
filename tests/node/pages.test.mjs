// Runs each example of the types' documentation and the TypeScript of the pages in docs/. tests/cross/test_pages.py
// runs their JavaScript.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import events from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import * as redlock from "redlock-native";
import * as otel from "redlock-native/otel";
import { TestRedlock } from "redlock-native/testing";
import { pageBlocks } from "./page-blocks.mjs";
import { describe, test } from "./testing.mjs";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const AsyncFunction = (async () => {}).constructor;
const FILES = [
  "client/default",
  "client/log",
  "client/client",
  "lock/lock",
  "lease/lease",
  "errors/errors",
  "testing",
  "otel",
];
const CLASSES = ["Redlock", "Lock", "Lease"];
/** Functions of the default client. */
const FUNCTIONS = { configure: 1, lock: 1, once: 1, semaphore: 1, withLock: 1 };
/** Before these run, `lease` holds the lock. */
const HOLD = /\b(attach|forceRelease|leases|releaseAll|shutdown)\(/;

/** Each declaration of the built types that has an example: its class, its name, the example. */
async function documented() {
  const found = [];
  for (const file of FILES) {
    const text = await readFile(join(root, "bindings-node", "dist", `${file}.d.ts`), "utf8");
    let owner;
    const pattern =
      /(?: *\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n)?^( {4})?((?:export declare |get |readonly )*\S.*)$/gm;
    for (const [, doc = "", inner, line] of text.matchAll(pattern)) {
      const outer = /^export declare (?:class|function) (\w+)/.exec(line);
      if (outer) owner = outer[1];
      else if (!inner) continue;
      const name = outer ? owner : /^(?:get |readonly )*([\w.[\]]+)/.exec(line)?.[1];
      const [, example] = /```js\n([\s\S]*?)```/.exec(doc.replace(/^ *\* ?/gm, "")) ?? [];
      found.push({ owner, name, example, line });
    }
  }
  return found;
}

/** `expression; // value` asserts it. */
function asserted(code) {
  return code.replace(
    /^( *)(?!const |let )(.+); \/\/ (true|false|null|\d+|".*"|\[.*\])$/gm,
    "$1assert.deepEqual($2, $3);",
  );
}

const found = await documented();

describe("the examples in the type definitions run:", () => {
  for (const { owner, name, example } of found.filter((each) => each.example)) {
    test(`${owner}.${name}`, async () => {
      const client = new redlock.Redlock("memory://");
      const meterProvider = new MeterProvider();
      const scope = {
        ...redlock,
        ...otel,
        meterProvider,
        assert,
        events,
        client,
        TestRedlock,
        redlock: new TestRedlock(),
      };
      if (owner in FUNCTIONS) redlock.configure("memory://", { replace: true });
      else scope.lock = client.lock("job");
      const makesNone = !/const (lease|ours) =|new Redlock|"row"/.test(example);
      if (makesNone && (owner === "Lease" || HOLD.test(example))) {
        scope.lease = await client.lock("job").acquire();
      }
      // Waiting for a loss does not keep a process alive. Other work does.
      const alive = setInterval(() => undefined, 1_000);
      try {
        const body = `{ ${asserted(example)} }`;
        await new AsyncFunction(...Object.keys(scope), body)(...Object.values(scope));
      } finally {
        clearInterval(alive);
        await client.shutdown(0).catch(() => undefined);
      }
    });
  }

  test("every public member has an example", () => {
    const overloads = new Set(found.filter(({ example }) => example).map(named));
    const without = found.filter((each) => isPublic(each) && !overloads.has(named(each)));
    assert.deepEqual(without.map(named), []);
    assert.ok(overloads.size > 35, `${overloads.size}`);
  });
});

const named = ({ owner, name }) => `${owner}.${name}`;

function isPublic({ owner, name, line }) {
  if (name === owner) return owner in redlock;
  return CLASSES.includes(owner) && name !== "constructor" && !/^(#|\}|\/|\*)/.test(line) && name;
}

test("the TypeScript of the pages compiles and behaves as described", async () => {
  // Those with a file name belong to the recipes.
  const blocks = (await pageBlocks())
    .filter(({ language, file }) => language === "ts" && !file)
    .map(({ code }) => code);
  assert.ok(blocks.length >= 4, `${blocks.length}`);
  // Inside this tree, the package is found by its own name.
  const folder = await mkdtemp(join(root, "bindings-node", "dist", "pages-"));
  try {
    const files = blocks.map((_, at) => join(folder, `block${at}.mts`));
    await Promise.all(files.map((file, at) => writeFile(file, blocks[at])));
    const tsc = join(root, "node_modules", ".bin", "tsc");
    const flags =
      "--strict --target es2022 --module node16 --lib es2023,esnext.disposable --types node";
    await run(tsc, [...flags.split(" "), ...files], { cwd: root, timeout: 60_000 });
    for (const [at, code] of blocks.entries()) {
      const { stdout } = await run(process.execPath, [files[at].replace(".mts", ".mjs")], {
        timeout: 30_000,
      });
      const promised = [...code.matchAll(/^ *console\.log\(.*\); \/\/ (.*)$/gm)];
      assert.equal(stdout, promised.map(([, text]) => `${text}\n`).join(""));
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
