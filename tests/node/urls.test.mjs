// Node URLs as other clients write them (vectors/urls.toml), and options that go with them.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Redlock } from "redlock-native";
import {
  camel,
  eventually,
  freePort,
  fresh,
  refusal,
  Server,
  serverForSuite,
  silentNodesForSuite,
  table,
} from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const run = promisify(execFile);
const warnings = [];
process.on("warning", (warning) => warnings.push(warning.message));

describe("parameters of other clients are understood or refused by name:", () => {
  const silent = silentNodesForSuite(1);
  const { url: rows } = table("urls");
  assert.ok(rows.length > 30);
  for (const { about, node, shown, options = {}, error, never } of rows) {
    test(about, () => {
      const here = (text) => text.replaceAll("PORT", silent.ports[0]);
      const spelled = (text) => here(text).replace(/<(\w+)>/g, (_, name) => camel(name));
      const given = Object.fromEntries(
        Object.entries(options).map(([name, value]) => [camel(name), value]),
      );
      const make = () => new Redlock(here(node), given);
      if (error) assert.throws(make, refusal(error.map(spelled), never));
      else assert.deepEqual(make().nodes, [here(shown)]);
    });
  }
});

describe("on a server", () => {
  const shared = serverForSuite();

  test("a name and a database reach it", async () => {
    const url = `redis://127.0.0.1:${shared.server.port}`;
    const clients = [
      new Redlock(`${url}?db=3&client_name=by-url`),
      new Redlock(url, { clientName: "by-option" }),
      new Redlock(url),
    ];
    for (const client of clients) await (await client.lock("named").acquire()).release();
    const list = await shared.server.cli("CLIENT", "LIST");
    assert.match(list, /name=by-url .*db=3 /);
    assert.match(list, /name=by-option /);
    assert.match(list, /name=redlock /);
    for (const client of clients) client.close();
  });
});

test("a server that proves nothing is believed where that was asked for, and said once", async () => {
  const folder = await mkdtemp(join(tmpdir(), "redlock-papers-"));
  const line =
    "req -x509 -newkey rsa:2048 -nodes -keyout own.key -out own.crt -days 2 -subj /CN=nobody";
  await run("openssl", line.split(" "), { cwd: folder });
  const port = await freePort();
  const flags = ["--tls-port", port, "--tls-auth-clients", "no"];
  flags.push("--tls-cert-file", join(folder, "own.crt"), "--tls-key-file", join(folder, "own.key"));
  flags.push("--tls-ca-cert-file", join(folder, "own.crt"));
  const server = await Server.start(flags);
  try {
    const url = `rediss://127.0.0.1:${port}`;
    const strict = new Redlock(url, { tlsVerify: true, tlsCa: join(folder, "own.crt") });
    await assert.rejects(strict.lock(fresh(), { wait: 0 }).acquire(), { code: "unavailable" });
    const client = new Redlock(url, { tlsVerify: false });
    for (let times = 0; times < 3; times += 1) {
      await (await client.lock(fresh()).acquire()).release();
    }
    const words = ["tlsVerify is off", url];
    const said = () => warnings.filter((text) => words.every((word) => text.includes(word)));
    await eventually(() => assert.equal(said().length, 1, warnings.join("\n")));
    for (const made of [strict, client]) made.close();
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
});
