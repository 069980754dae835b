// The test cases of other libraries, reproduced by meaning: one test for each, with its row in docs/contributing/replayed-tests.md.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { callbackify, promisify } from "node:util";
import { test } from "../testing.mjs";

const page = readFileSync(
  new URL("../../../docs/contributing/replayed-tests.md", import.meta.url),
  "utf8",
);
export const VERDICTS = ["same", "better", "differs", "no equivalent"];

/** The rows of one library's table. */
function rowsOf(library) {
  const [, part] = page.split(`### ${library}\n`);
  assert.ok(part, `docs/contributing/replayed-tests.md has no table of ${library}`);
  const rows = part
    .split("\n###")[0]
    .split("\n## ")[0]
    .matchAll(/^\| (.+) \| (\d+) \| (.+) \|$/gm);
  return [...rows].map(([, what, cases, here]) => {
    const verdict = VERDICTS.find((word) => here === word || here.startsWith(`${word}: `));
    assert.ok(verdict, `${what}: ${here}`);
    assert.ok(verdict === "same" || here.length > verdict.length + 2, `${what}: no reason`);
    return { what, cases: Number(cases), verdict };
  });
}

/**
 * The cases of a library, and a last test that compares them with the page's table. `apart` has the variants with a
 * separate row.
 */
export function replaying(library, apart = { has: () => false }) {
  const cases = [];
  const others = { what: apart.what, cases: 0, verdict: apart.verdict };
  /** One case for each of `variants`. `body` receives the variant. */
  function replay(what, verdict, variants, body) {
    const usual = variants.filter((variant) => !apart.has(variant)).length;
    if (usual > 0) cases.push({ what, cases: usual, verdict });
    others.cases += variants.length - usual;
    for (const variant of variants) {
      const name = variant === "" ? what : `${what} (${variant})`;
      test(name, (context) => body(variant, context));
    }
  }
  const told = () =>
    test(`docs/contributing/replayed-tests.md says so of ${library}`, () => {
      assert.deepEqual(rowsOf(library), others.cases > 0 ? [...cases, others] : cases);
    });
  return { replay, told };
}

/** Calls an async function from a program that uses only callbacks. */
export const byCallback = (call) => promisify(callbackify(call))();

/** Returns the error of a refused call. */
export const failed = (promise) =>
  promise.then(
    () => assert.fail("it did not fail"),
    (error) => error,
  );
