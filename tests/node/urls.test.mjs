// Node URLs in the formats of other clients (vectors/urls.toml), and options beside them.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { camel, refusal, serverForSuite, silentNodesForSuite, table } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

describe("URL parameters of other clients are supported or rejected by name:", () => {
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

describe("with a server", () => {
  const shared = serverForSuite();

  test("client_name and db are sent", async () => {
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
