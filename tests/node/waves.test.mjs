// Waves of requests to the example server: of a hundred at once, exactly one acquires the lock.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { jobHandler } from "../../examples/server/express/job.mjs";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { after, slow } from "./testing.mjs";

const shared = serverForSuite();
const WAVES = 5;
const REQUESTS = 100;
const agent = new Agent({ keepAlive: true, maxSockets: REQUESTS });
const servers = [];

/** The example's handler under plain HTTP. A rejection is a 500, as under Express. */
async function listen(nodes, name) {
  const redlock = new Redlock(nodes);
  const handle = jobHandler(redlock, name);
  const server = createServer((incoming, response) => {
    handle(incoming, response).catch((error) => response.writeHead(500).end(String(error)));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  servers.push({ server, redlock });
  return server.address().port;
}

after(() => {
  agent.destroy();
  for (const { server, redlock } of servers) {
    server.close();
    redlock.close();
  }
});

async function post(port) {
  const sent = request({ port, agent, method: "POST", path: "/job" }).end();
  const [response] = await once(sent, "response");
  response.resume();
  await once(response, "end");
  return response.statusCode;
}

/** Sends each wave a second after the last one has ended. Returns the counts of the responses. */
async function waves(ports) {
  const answers = [];
  for (let wave = 0; wave < WAVES; wave += 1) {
    const started = performance.now();
    const sent = Array.from({ length: REQUESTS }, (_, at) => post(ports[at % ports.length]));
    const codes = await Promise.all(sent);
    const count = (code) => codes.filter((each) => each === code).length;
    answers.push({ done: count(200), running: count(409), took: performance.now() - started });
    await sleep(Math.max(0, 1000 - (performance.now() - started)));
  }
  return answers;
}

function oneEach(answers) {
  assert.equal(answers.length, WAVES);
  for (const { done, running, took } of answers) {
    assert.deepEqual(
      { done, running },
      { done: 1, running: REQUESTS - 1 },
      JSON.stringify(answers),
    );
    assert.ok(took >= 850, `the winner held it for its whole work: ${took} ms`);
  }
}

slow(
  "100 callers in waves of a real second",
  "one server process: 1 of 100 requests acquires the lock",
  async () => {
    oneEach(await waves([await listen(shared.server.url, uniqueName())]));
  },
);

slow(
  "100 callers in waves of a real second",
  "three server processes: 1 of 100 requests acquires the lock",
  async () => {
    const { url } = shared.server;
    const name = uniqueName();
    const ports = await Promise.all([1, 2, 3].map(() => listen(url, name)));
    oneEach(await waves(ports));
  },
);
