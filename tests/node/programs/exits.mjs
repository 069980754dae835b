// Ends in the middle of a call, with nothing awaited. The arguments are the node and the way.
import { Redlock } from "redlock-native";

const [node, way] = process.argv.slice(2);
const client = new Redlock(node, { clientName: `left-${way}` });
const lock = client.lock(`left-${way}`, { ttl: 60_000 });
// From now on there is a connection that this thread may read.
for (let turn = 0; turn < 200; turn += 1) await (await lock.acquire()).release();

if (way === "released") {
  const lease = await lock.acquire();
  lease.release();
} else {
  const controller = new AbortController();
  lock.acquire({ signal: controller.signal }).catch(() => undefined);
  controller.abort();
}
process.exit();
