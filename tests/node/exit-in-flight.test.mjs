// The process ends while acquires are in flight: no key remains.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { eventually, program, serverForSuite } from "./helper.mjs";
import { after, before, beforeEach, describe, test } from "./testing.mjs";

const shared = serverForSuite();
const COUNT = 20;

/** Forwards everything, until the client asks for a key that begins with `left-`. From then on no reply arrives. */
function proxyWithoutReplies(port) {
  return createServer((client) => {
    const server = connect(port, "127.0.0.1");
    let muted = false;
    client.on("data", (chunk) => {
      muted ||= chunk.includes("lock:left-");
      server.write(chunk);
    });
    server.on("data", (chunk) => muted || client.write(chunk));
    for (const [one, other] of [
      [client, server],
      [server, client],
    ]) {
      one.on("error", () => undefined);
      one.on("close", () => other.end());
    }
  }).listen(0, "127.0.0.1");
}

const keys = async () =>
  (await shared.server.cli("KEYS", "lock:left-*")).split("\n").filter(Boolean);

/** Waits until the server has executed everything that the program sent. */
async function left() {
  const clients = () => shared.server.cli("CLIENT", "LIST");
  await eventually(async () => assert.doesNotMatch(await clients(), / name=left-in-flight/));
  return await keys();
}

describe("a process that ends while acquires are in flight leaves no key", () => {
  let proxy;
  let url;
  before(async () => {
    const { server } = shared;
    proxy = proxyWithoutReplies(server.port);
    await once(proxy, "listening");
    url = server.url.replace(`:${server.port}`, `:${proxy.address().port}`);
  });
  after(() => proxy.close());
  beforeEach(() => shared.server.cli("FLUSHALL"));

  for (const [ending, expected] of [
    ["exit", 0],
    ["error", 1],
  ]) {
    for (const replies of ["with replies", "without replies"]) {
      test(`${ending}, ${replies}`, async () => {
        const node = replies === "with replies" ? shared.server.url : url;
        const { code, lines, stderr } = await program("exits-in-flight", [node, COUNT, ending]);
        assert.deepEqual([code, lines], [expected, ["sent"]], stderr);
        assert.deepEqual(await left(), []);
      });
    }
  }

  test("the handler of a signal", async () => {
    const file = fileURLToPath(new URL("programs/exits-in-flight.mjs", import.meta.url));
    const child = spawn(process.execPath, [file, url, COUNT, "SIGTERM"], { stdio: "inherit" });
    const closed = once(child, "close");
    // The server has granted all of them.
    await eventually(async () => assert.equal((await keys()).length, COUNT));
    child.kill("SIGTERM");
    assert.deepEqual(await closed, [0, null]);
    assert.deepEqual(await left(), []);
  });
});

test("the exit hook is not counted among the program's exit listeners", async () => {
  const { code, lines, stderr } = await program("exit-listeners", [shared.server.url]);
  assert.deepEqual([code, lines], [0, ["done"]], stderr);
});
