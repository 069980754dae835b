// The tables that all languages share: refused values with their texts, the kind of each class, and foreign values of a
// key.
import assert from "node:assert/strict";
import * as redlock from "redlock-native";
import { LockError, lock, Redlock } from "redlock-native";
import {
  camel,
  eventually,
  refusal,
  serverForSuite,
  silentNodes,
  silentNodesForSuite,
  table,
  uniqueName,
} from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const { lock: locks, client: clients } = table("options");
const number = (value) => ({ nan: Number.NaN, inf: Infinity })[value] ?? value;
const options = (given) =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [camel(name), number(value)]));

/** Removes the rows that apply only to seconds. */
const ours = (rows) => rows.filter(({ seconds, milliseconds }) => milliseconds || !seconds);

/** Converts the names and times of a message to the notation of this language. */
const spelled = (text) =>
  camel(text).replace(/(\d+(?:\.\d+)?) s\b/g, (_, time) => `${Math.round(time * 1000)} ms`);

function check(call, { error, never }) {
  if (error === undefined) return call();
  assert.throws(call, refusal(error.map(spelled), never));
}

describe("options of a lock are checked before anything is sent:", () => {
  const silent = silentNodesForSuite(3);
  const rows = ours(locks);
  assert.ok(rows.length > 10);
  for (const row of rows) {
    const { about, nodes = 1, milliseconds = {}, long_name, many_names } = row;
    const many = many_names && Array.from({ length: many_names }, (_, at) => `name-${at}`);
    const names = long_name ? "x".repeat(long_name) : (row.names ?? many ?? "a");
    test(about, () => {
      const urls = silent.ports.slice(0, nodes).map((port) => `redis://127.0.0.1:${port}`);
      check(() => new Redlock(urls).lock(names, options(milliseconds)), row);
      // A lock of the default client is checked as one over one node.
      if (nodes === 1) check(() => lock(names, options(milliseconds)), row);
    });
  }
});

describe("options of a client are checked before anything is sent:", () => {
  const silent = silentNodesForSuite(1);
  const rows = ours(clients);
  assert.ok(rows.length > 10);
  for (const row of rows) {
    const { about, milliseconds = {} } = row;
    const tls = row.tls_server_name ? { tlsServerName: row.tls_server_name } : {};
    test(about, () => {
      const here = (text) => text.replace("PORT", silent.ports[0]);
      const words = { ...row, error: row.error?.map(here) };
      check(() => new Redlock(row.nodes.map(here), { ...options(milliseconds), ...tls }), words);
    });
  }
});

test("valid options reach the node, so the tests above can fail", async () => {
  const silent = await silentNodes();
  const client = new Redlock(`redis://127.0.0.1:${silent.ports[0]}`);
  await assert.rejects(client.lock("job", { ttl: 100, wait: 0 }).acquire(), {
    kind: "unavailable",
  });
  assert.ok(silent.called() > 0);
  silent.stop();
});

describe("warnings are emitted once:", () => {
  for (const { about, milliseconds, warning } of locks.filter((row) => row.warning)) {
    test(about, async (context) => {
      const warned = context.mock.method(process, "emitWarning", () => undefined);
      const client = new Redlock("memory://");
      const name = uniqueName();
      for (let turn = 0; turn < 3; turn++) {
        const lease = await client.lock(name, options(milliseconds)).acquire();
        await lease.release();
      }
      const texts = () => warned.mock.calls.map((call) => call.arguments[0].message);
      const mine = () => texts().filter((text) => text.includes(`lock:${name}`));
      await eventually(() => assert.equal(mine().length, 1, texts().join()));
      for (const word of warning) assert.ok(mine()[0].includes(word), mine()[0]);
      assert.equal(warned.mock.calls[0].arguments[0].code, "REDLOCK");
    });
  }
});

test("each error has its class, kind, code and base class", () => {
  const classes = new Map(Object.entries(redlock));
  const rows = table("errors").error;
  for (const row of rows) {
    const error = new (classes.get(row.class))("text");
    assert.equal(error.kind, row.kind);
    assert.equal(error.code, `ERR_REDLOCK_${row.kind.toUpperCase()}`);
    assert.equal(error.name, row.class);
    assert.ok(error instanceof (classes.get(row.also) ?? LockError));
  }
  const known = [...classes.values()].filter((value) => value.prototype instanceof LockError);
  assert.equal(known.length, rows.length);
});

describe("a closed client rejects", () => {
  for (const verb of table("errors").after_close) {
    test(verb, async () => {
      const client = new Redlock("memory://");
      const name = uniqueName();
      const described = client.lock(name);
      client.close();
      const onClient = {
        attach: () => client.attach(name, "0".repeat(32)),
        force_release: () => client.forceRelease(name),
      };
      const call = onClient[verb] ?? (() => described[camel(verb)]());
      await assert.rejects(call(), {
        name: "ClientClosed",
        kind: "closed",
        resource: `lock:${name}`,
      });
    });
  }
});

describe("a lease cannot be entered after", () => {
  for (const verb of table("errors").not_entered_after) {
    test(verb, async () => {
      const client = new Redlock("memory://");
      const name = uniqueName();
      const lease = await client.lock(name).acquire();
      await (verb === "force_release" ? client.forceRelease(name) : lease[verb]());
      await eventually(() => assert.equal(lease.held, false));
      const expected = verb === "force_release" ? "LockLost" : "LockReleased";
      assert.throws(() => lease[Symbol.asyncDispose], { name: expected, resource: lease.key });
    });
  }
});

describe("keys with other data:", () => {
  const shared = serverForSuite();
  for (const { about, set, kind, says } of table("keys").key) {
    test(about, async () => {
      const { server } = shared;
      const [client, name] = [new Redlock(server.url), uniqueName()];
      const described = client.lock(name, { wait: 100 });
      const { key } = described;
      for (const command of set) await server.cli(...command.replace("KEY", key).split(" "));
      const before = await server.cli("DUMP", key);
      const calls = [() => described.acquire()];
      if (kind === "unsupported")
        calls.push(
          () => described.inspect(),
          () => client.forceRelease(name),
          () => described.attach("0".repeat(32)),
        );
      for (const call of calls) {
        await assert.rejects(call, (error) => {
          assert.equal(error.kind, kind);
          for (const word of [key, ...says.map(camel)])
            assert.ok(error.message.includes(word), error.message);
          return true;
        });
      }
      assert.equal(await server.cli("DUMP", key), before);
    });
  }
});
