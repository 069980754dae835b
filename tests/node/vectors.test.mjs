// The same tables in every language: which options are refused in which words, and which code belongs to which class.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import * as redlock from "redlock-native";
import { InvalidOption, LockError, Redlock } from "redlock-native";
import { parse } from "smol-toml";

const table = (name) =>
  parse(readFileSync(new URL(`../vectors/${name}.toml`, import.meta.url), "utf8"));

/** Options are written the JavaScript way here, in arguments as in messages. */
const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const number = (value) => ({ nan: Number.NaN, inf: Infinity })[value] ?? value;

const options = (given) =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [camel(name), number(value)]));

function check(call, { error, never = [] }) {
  if (error === undefined) return call();
  assert.throws(call, (thrown) => {
    assert.ok(thrown instanceof InvalidOption, String(thrown));
    for (const word of error.map(camel)) assert.ok(thrown.message.includes(word), thrown.message);
    for (const word of never) assert.ok(!thrown.message.includes(word), thrown.message);
    return true;
  });
}

const { lock: locks, client: clients } = table("options");

describe("options of a lock", () => {
  // A row for seconds only is not about this language.
  const rows = locks.filter(({ seconds, milliseconds }) => milliseconds || !seconds);
  assert.ok(rows.length > 10);
  for (const row of rows) {
    const { about, nodes = ["memory://"], milliseconds = {}, long_name } = row;
    const names = long_name ? "x".repeat(long_name) : (row.names ?? "a");
    test(about, () => check(() => new Redlock(nodes).lock(names, options(milliseconds)), row));
  }
});

describe("options of a client", () => {
  assert.ok(clients.length > 5);
  for (const row of clients) {
    const { about, nodes = ["memory://"], milliseconds = {} } = row;
    test(about, () => check(() => new Redlock(nodes, options(milliseconds)), row));
  }
});

test("errors: class, code, base", () => {
  const classes = new Map(Object.entries(redlock));
  const rows = table("errors").error;
  for (const row of rows) {
    const error = new (classes.get(row.class))("text");
    assert.equal(error.code, row.code);
    assert.equal(error.name, row.class);
    assert.ok(error instanceof LockError);
  }
  const known = [...classes.values()].filter((value) => value.prototype instanceof LockError);
  assert.equal(known.length, rows.length);
});
