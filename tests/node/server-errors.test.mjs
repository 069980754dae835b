// Real servers in bad states. Each is an error with a separate cause.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { inspect } from "node:util";
import { Redlock } from "redlock-native";
import { eventually, freePort, PROGRAM, Server, uniqueName, unlessLeast } from "./helper.mjs";
import { after, test } from "./testing.mjs";

const servers = [];
after(() => Promise.all(servers.map((server) => server.stop())));

async function started(...flags) {
  const server = await Server.start(flags);
  servers.push(server);
  return server;
}

const login = (server, who) => server.url.replace("//", `//${who}@`);

async function protectedServer() {
  const server = await started();
  await server.cli("CONFIG", "SET", "requirepass", "s3cret-word");
  return server;
}

/** Redis 6.2 allows everyone to debug it, and does not start with an unknown option. */
const old = /v=6\./.test(execFileSync(PROGRAM, ["--version"]));

const FAILURES = {
  NOAUTH: async () => (await protectedServer()).url,
  WRONGPASS: async () => login(await protectedServer(), ":wr0ng-s3cret"),
  NOPERM: async () => {
    const server = await started();
    await server.cli("ACL", "SETUSER", "some", "on", ">s3cret", "+@all", "~other:*");
    return login(server, "some:s3cret");
  },
  "is a replica": async () => {
    const master = await started("--repl-diskless-sync-delay", 0);
    const server = await started("--replicaof", "127.0.0.1", master.port);
    const up = async () =>
      assert.match(await server.cli("INFO", "replication"), /master_link_status:up/);
    await eventually(up, 20_000);
    return server.url;
  },
  "is a replica (its role is replica)": async () => {
    const server = await started();
    await server.cli("CONFIG", "SET", "replica-serve-stale-data", "no");
    await server.cli("REPLICAOF", "127.0.0.1", await freePort());
    return server.url;
  },
  OOM: async () => (await started("--maxmemory", 1)).url,
  BUSY: async () => {
    const server = await started("--lua-time-limit", 1);
    void server.cli("EVAL", "while true do end", 0).catch(() => undefined);
    await eventually(async () => assert.match(await server.cli("PING"), /BUSY/));
    return server.url;
  },
  LOADING: async () => {
    const debug = old ? [] : ["--enable-debug-command", "yes"];
    const server = await started("--rdbcompression", "no", ...debug);
    // An old server replies only every 2 MB of its file.
    await server.cli("DEBUG", "POPULATE", 10_000, "key", old ? 40_000 : 100);
    await server.cli("CONFIG", "SET", "key-load-delay", 2000); // µs
    await server.cli("CONFIG", "SET", "loading-process-events-interval-bytes", 1024);
    void server.cli("DEBUG", "RELOAD").catch(() => undefined);
    await eventually(async () => assert.match(await server.cli("PING"), /LOADING/));
    return server.url;
  },
  // A frozen server sends no text.
  "no ": async () => {
    const server = await started();
    server.process.kill("SIGSTOP");
    return server.url;
  },
};

for (const [cause, start] of Object.entries(FAILURES)) {
  const own = ["NOAUTH", "NOPERM"].includes(cause.trim()) ? unlessLeast("a user of its own") : {};
  test(
    `${cause.trim()}: acquire and tryAcquire report it, inspect shows no holder`,
    own,
    async () => {
      const redlock = new Redlock(await start(), { connectTimeout: 2000 });
      const lock = redlock.lock(uniqueName(), { wait: 1000 });
      // It can still be read, and reports the holder.
      const reads = cause === "OOM";
      if (reads) assert.equal((await lock.inspect()).held, false);
      for (const verb of ["acquire", "tryAcquire", ...(reads ? [] : ["inspect"])]) {
        await assert.rejects(lock[verb](), (error) => {
          assert.equal(error.kind, "unavailable");
          assert.ok(error.nodes[0].error.includes(cause), error.nodes[0].error);
          assert.ok(!inspect([error, redlock], { depth: null }).includes("s3cret"));
          return true;
        });
      }
      redlock.close();
    },
  );
}

test("a wrong password ends an unlimited wait", async () => {
  const redlock = new Redlock(await FAILURES.WRONGPASS());
  await assert.rejects(redlock.lock(uniqueName()).acquire(), (error) => {
    assert.equal(error.kind, "unavailable");
    assert.match(error.message, /WRONGPASS/);
    return true;
  });
  redlock.close();
});

test("an unexpected cluster ends an unlimited wait", async () => {
  // One of two nodes. The other one has all keys.
  const cluster = () => started("--cluster-enabled", "yes");
  const [one, two] = await Promise.all([cluster(), cluster()]);
  // Redis 6.2 does not support ranges.
  await two.cli("CLUSTER", "ADDSLOTS", ...Array(16384).keys());
  await one.cli("CLUSTER", "MEET", "127.0.0.1", two.port);
  await eventually(async () => assert.match(await one.cli("GET", "key"), /MOVED/), 20_000);
  const redlock = new Redlock(one.url);
  for (const verb of ["acquire", "tryAcquire"]) {
    const says = { kind: "invalid", message: /Redis Cluster.*[Uu]se redis\+cluster:\/\// };
    await assert.rejects(redlock.lock(uniqueName())[verb](), says);
  }
  redlock.close();
});

for (const verb of ["acquire", "tryAcquire"]) {
  test(`refused scripts are unsupported at once: ${verb}`, async () => {
    const hidden = ["EVAL", "EVALSHA", "SCRIPT"];
    const server = await started(...hidden.flatMap((name) => ["--rename-command", name, ""]));
    const redlock = new Redlock(server.url);
    await assert.rejects(redlock.lock(uniqueName())[verb](), {
      name: "Unsupported",
      kind: "unsupported",
      message: /does not support EVAL, which every lock needs.*ERR unknown command/,
    });
    assert.equal(await server.cli("DBSIZE"), "0");
    redlock.close();
  });
}
