// inspect(): the view of a quorum, and an error if no quorum replies.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { freePort, Server, uniqueName } from "./helper.mjs";
import { after, before, test } from "./testing.mjs";

let server;
before(async () => {
  server = await Server.start();
});
after(() => server.stop());

const dead = async () => `redis://127.0.0.1:${await freePort()}`;

test("inspect throws QuorumUnavailable if no node replies", async () => {
  for (const nodes of [[await dead()], [server.url, await dead(), await dead()]]) {
    const lock = new Redlock(nodes, { restartGuard: 0 }).lock(uniqueName());
    await assert.rejects(lock.inspect(), (error) => {
      assert.equal(error.name, "QuorumUnavailable");
      assert.equal(error.resource, lock.key);
      assert.equal(error.nodes.length, nodes.length);
      const faults = error.nodes.filter((node) => node.state === "fault");
      assert.ok(faults.length > nodes.length / 2, error.message);
      for (const { error: text } of faults) assert.ok(text.length > 0);
      return true;
    });
  }
});

test("inspect lists a failed minority among the nodes", async () => {
  const nodes = [server.url, "memory://", await dead()];
  const lock = new Redlock(nodes, { restartGuard: 0 }).lock(uniqueName());
  const seen = await lock.inspect();
  assert.equal(seen.held, false);
  assert.deepEqual(
    seen.nodes.map((node) => node.state),
    ["free", "free", "fault"],
  );
  await lock.using(async () => assert.equal((await lock.inspect()).held, true));
});
