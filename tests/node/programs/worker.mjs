// A worker thread that runs commands and reports results.
import { parentPort, workerData } from "node:worker_threads";
import { Redlock } from "redlock-native";

const { node, name, task } = workerData;
const client = new Redlock(node, { clientName: name });
const lock = client.lock(name, { ttl: 1000 });

if (task === "use") {
  const lease = await lock.acquire();
  parentPort.postMessage(lease.token);
  await lease.release();
} else if (task === "exit") {
  for (let at = 0; at < 10; at += 1) lock.acquire().then((lease) => lease.release());
  setTimeout(() => process.exit(), 20);
} else if (task === "hold") {
  const lease = await lock.acquire();
  parentPort.postMessage(lease.token);
  setInterval(() => lease.held, 50);
} else if (task === "body") {
  await lock.using((lease) => {
    parentPort.postMessage(lease.token);
    return new Promise(() => undefined);
  });
} else if (task === "flood") {
  const pair = async () => (await lock.acquire()).release();
  // Afterwards the connection is open, and this thread reads its replies.
  for (let turn = 0; turn < 200; turn += 1) await pair();
  parentPort.postMessage("reads");
  for (;;) await Promise.all([pair(), pair(), pair()]);
} else {
  lock.acquire().then(() => parentPort.postMessage("acquired"));
  while (client.stats().waiting === 0) await new Promise((resolve) => setImmediate(resolve));
  parentPort.postMessage("waiting");
}
