// The published types: one file per entry point, which declares everything that the entry point exports.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as redlock from "redlock-native";
import * as otel from "redlock-native/otel";
import * as testing from "redlock-native/testing";
import { rollup } from "../../bindings-node/rollup.mjs";
import { test } from "./testing.mjs";

const built = fileURLToPath(new URL("../../bindings-node/dist/", import.meta.url));

const exported = (types) => {
  const [, list] = /^export \{([^}]*)\};$/m.exec(types);
  return list.match(/\w+/g);
};

for (const [entry, values, external] of [
  ["./index.js", redlock, []],
  ["./testing.js", testing, ["./index.js"]],
  ["./otel.js", otel, ["./index.js", "@opentelemetry/api"]],
]) {
  test(`rolled-up types of ${entry} declare every export and import no internal module`, () => {
    const types = rollup(built, entry, external);
    const names = exported(types);
    for (const name of Object.keys(values)) assert.ok(names.includes(name), name);
    for (const name of names)
      assert.match(types, new RegExp(`^declare \\w+ ${name}\\b|^\\w+ ${name}\\b`, "m"));
    const imports = [...types.matchAll(/from "([^"]+)"/g)].map(([, from]) => from);
    assert.deepEqual(imports.sort(), external.sort());
  });
}

test("rollup refuses names that two modules declare", async () => {
  const folder = await mkdtemp(join(tmpdir(), "redlock-rollup-"));
  try {
    const main =
      'import type { Shape } from "./b.js";\nexport interface A {\n    b: B;\n    s: Shape;\n}\n';
    await writeFile(join(folder, "a.d.ts"), `${main}interface B {\n    n: 1;\n}\n`);
    await writeFile(
      join(folder, "b.d.ts"),
      "export type Shape = B;\ninterface B {\n    n: 2;\n}\n",
    );
    assert.throws(() => rollup(folder, "./a.js"), /B is declared in/);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
