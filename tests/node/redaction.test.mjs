// Objects that a program prints, logs or copies show no secret, however they are nested and printed.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { Console } from "node:console";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { format, inspect, promisify } from "node:util";
import { serialize } from "node:v8";
import { onWarning, Redlock } from "redlock-native";
import { eventually, freePort, uniqueName } from "./helper.mjs";
import { after, before, describe, test } from "./testing.mjs";

const require = createRequire(import.meta.url);
const { clientOptions } = require("../../bindings-node/dist/native.js");
const run = promisify(execFile);
const PASSWORD = "pass-s3cret";
let folder;
let certificate;
let key;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "redlock-views-"));
  await run(
    "openssl",
    "req -x509 -newkey rsa:2048 -nodes -keyout a.key -out a.crt -days 2 -subj /CN=a".split(" "),
    { cwd: folder },
  );
  certificate = await readFile(join(folder, "a.crt"));
  key = await readFile(join(folder, "a.key"));
});
after(() => rm(folder, { recursive: true, force: true }));

/** The output of a console. */
function printed(print) {
  let text = "";
  const stream = new Writable({
    write(chunk, _, done) {
      text += chunk;
      done();
    },
  });
  print(new Console(stream));
  return text;
}

/** Every text that a program may make from an object. */
function texts(value) {
  const all = [JSON.stringify(value) ?? "", String(value), JSON.stringify({ ...value })];
  const options = [{}, { depth: null }, { showHidden: true, depth: null }, { showProxy: true }];
  options.push({ customInspect: false, depth: null }, { getters: true, depth: null });
  options.push({ customInspect: false, showHidden: true, depth: null });
  for (const each of options) all.push(inspect(value, { maxArrayLength: null, ...each }));
  for (const directive of ["%o", "%O", "%j", "%s"]) all.push(format(directive, value));
  all.push(printed((console) => console.log("a", value)));
  all.push(printed((console) => console.dir(value, { depth: null })));
  all.push(printed((console) => console.table([value])));
  try {
    all.push(serialize(value).toString("latin1"));
    all.push(inspect(structuredClone(value), { depth: null }));
  } catch (error) {
    all.push(inspect(error, { depth: null }));
  }
  return all;
}

/** An object alone, and inside the data of a log. */
function everywhere(value) {
  const nested = [value, { context: { value } }, [value], new Map([["a", value]])];
  nested.push(new Error("a", { cause: value }), Object.assign(new Error("a"), { value }));
  nested.push(new Proxy(value, {}), Object.create(value));
  return nested.flatMap(texts);
}

/** The bytes in every printed form, and the texts. */
function formsOf(secret) {
  const bytes = Buffer.from(secret);
  // From the middle, because the first line of a key is the same for all.
  const part = bytes.subarray(Math.floor(bytes.length / 2));
  const numbers = [...part.subarray(0, 6)];
  const hex = numbers.map((byte) => byte.toString(16).padStart(2, "0"));
  return [part.toString("latin1", 0, 12), numbers.join(","), numbers.join(", "), hex.join(" ")];
}

function assertHidden(value, secrets) {
  const forms = secrets.flatMap(formsOf);
  for (const text of everywhere(value)) {
    for (const form of forms) assert.ok(!text.includes(form), text.slice(0, 2_000));
  }
}

describe("a client shows no secret", () => {
  /** The ways to pass a certificate or a key. */
  const WAYS = {
    "a Buffer": (bytes) => bytes,
    "a Uint8Array": (bytes) => new Uint8Array(bytes),
    "a part of a larger buffer": (bytes) => Buffer.concat([bytes, bytes]).subarray(bytes.length),
  };
  for (const [way, make] of Object.entries(WAYS)) {
    test(`when certificates and keys are passed as ${way}`, () => {
      const client = new Redlock(`rediss://user:${PASSWORD}@127.0.0.1:1`, {
        tlsKey: make(key),
        tlsCert: make(certificate),
        tlsCa: make(certificate),
      });
      assertHidden(client, [key, certificate, PASSWORD]);
      assert.deepEqual(client.toJSON().options, {
        tlsCa: `${certificate.length} bytes`,
        tlsCert: `${certificate.length} bytes`,
        tlsKey: `${key.length} bytes`,
      });
      assertHidden(client.lock("a", { ttl: 500 }), [key, certificate, PASSWORD]);
    });
  }

  test("when certificates and keys are passed as paths", () => {
    const [tlsCert, tlsKey] = [join(folder, "a.crt"), join(folder, "a.key")];
    const client = new Redlock("rediss://127.0.0.1:1", { tlsCert, tlsKey });
    assertHidden(client, [key]);
    assert.deepEqual(client.toJSON().options, { tlsCert: "a path", tlsKey: "a path" });
  });

  test("in the error about a rejected option", () => {
    const text = key.toString();
    for (const tlsKey of [text, `${text}\ud800`, text.replace(/-----.*-----/g, "")]) {
      const make = () => new Redlock("rediss://a", { tlsCert: certificate, tlsKey });
      assert.throws(make, (error) => {
        assertHidden(error, [key]);
        return error.kind === "invalid";
      });
    }
  });

  test("in any current or future option", () => {
    const { CLIENT, shownOptions } = require("../../bindings-node/dist/options/options.js");
    const given = { ...Object.fromEntries(clientOptions().map(({ name }) => [name, PASSWORD])) };
    const rules = { ...CLIENT, password: "string", other: "a kind of later" };
    const shown = shownOptions({ ...given, password: PASSWORD, other: PASSWORD }, rules);
    const numbers = clientOptions().filter(({ kind }) => /milliseconds|count|boolean/.test(kind));
    const texts = ["keyPrefix", "tlsServerName", "clientName", "label"];
    const expected = [...numbers.map(({ name }) => name), ...texts, "tlsCa", "tlsCert", "tlsKey"];
    assert.deepEqual(Object.keys(shown).sort(), expected.sort());
    for (const name of ["tlsCa", "tlsCert", "tlsKey"]) assert.equal(shown[name], "a path");
  });
});

test("a lease, its errors, channel messages and warnings hide its token", async () => {
  const client = new Redlock(`memory://${uniqueName()}`);
  const told = [];
  const listen = (message) => told.push(message);
  const channels = ["start", "end", "asyncStart", "asyncEnd", "error"].flatMap((step) =>
    ["acquire", "extend", "release"].map((call) => `tracing:redlock:${call}:${step}`),
  );
  channels.push("redlock:lost", "redlock:renew", "redlock:connect");
  for (const name of channels) subscribe(name, listen);
  onWarning(listen);
  const lease = await client.lock(uniqueName(), { ttl: 300 }).acquire();
  const { token } = lease;
  const other = await client.lock(uniqueName(), { ttl: 300 }).acquire();
  const lost = [];
  lease.onLost((error) => lost.push(error));
  await lease.extend(1000);
  assertHidden(lease, [token]);
  await client.forceRelease(lease.key.slice("lock:".length));
  await client.forceRelease(other.key.slice("lock:".length));
  await eventually(() => assert.equal(lost.length, 1));
  // The loss of the other lease has no listener, so a warning is emitted.
  await eventually(() => assert.ok(told.some((message) => message instanceof Error)));
  await assert.rejects(lease.release(), (error) => told.push(error) > 0);
  assertHidden(lease, [token]);
  for (const message of [...told, ...lost]) assertHidden(message, [token]);
  onWarning(null);
  for (const name of channels) unsubscribe(name, listen);
});

test("an error, its causes and its nodes hide the password", async () => {
  const nodes = [await freePort(), await freePort()].map(
    (port) => `redis://user:${PASSWORD}@127.0.0.1:${port}/1?client_name=a`,
  );
  for (const urls of [nodes[0], nodes]) {
    const client = new Redlock(urls, { restartGuard: 0 });
    const failed = await client
      .lock(uniqueName(), { wait: 0 })
      .acquire()
      .catch((error) => error);
    assert.equal(failed.kind, "unavailable");
    assertHidden(failed, [PASSWORD]);
    assertHidden(failed.cause, [PASSWORD]);
  }
});

const client = new Redlock(`memory://${uniqueName()}`);
const METHODS = {
  Lock: ["acquire", "tryAcquire", "using", "attach", "inspect", "key", "keys", "names"],
  Lease: ["extend", "release", "detach", "ensureHeld", "onLost", "held", "remaining", "token"],
  Redlock: ["lock", "using", "attach", "forceRelease", "releaseAll", "shutdown", "close", "nodes"],
};
METHODS.Lease.push("ttl", "keys", "signal", "fencingToken", Symbol.asyncDispose);
METHODS.Redlock.push("stats", "leases", Symbol.asyncDispose);

describe("a method called on another object throws a clear error:", () => {
  for (const [kind, names] of Object.entries(METHODS)) {
    test(kind, async () => {
      const lock = client.lock(uniqueName());
      const lease = await lock.acquire();
      const object = { Lock: lock, Lease: lease, Redlock: client }[kind];
      for (const name of names) {
        const { prototype } = object.constructor;
        const { value, get } = Object.getOwnPropertyDescriptor(prototype, name);
        for (const other of [undefined, {}, new Proxy(object, {}), client.lock]) {
          const use = async () => await (value ?? get).call(other, "a", () => undefined);
          await assert.rejects(use, ({ name: error, message }) => {
            assert.equal(error, "InvalidOption", `${String(name)}: ${message}`);
            assert.match(message, new RegExp(`${kind} was called on .* or on a Proxy`));
            return true;
          });
        }
      }
      assert.ok(lease.held);
      await lease.release();
    });
  }
});

describe("a class whose objects a call returns has no constructor:", () => {
  const lock = client.lock(uniqueName());
  for (const [kind, arguments_] of Object.entries({
    Lock: [[], ["job"], [{}], [null]],
    Lease: [[], ["job"], [1], [1, null]],
  })) {
    test(kind, async () => {
      const lease = await lock.acquire();
      const Class = { Lock: lock, Lease: lease }[kind].constructor;
      for (const given of arguments_) {
        assert.throws(() => new Class(...given), {
          name: "InvalidOption",
          message: new RegExp(`^${kind} has no public constructor. Use `),
        });
      }
      await lease.release();
    });
  }
});
