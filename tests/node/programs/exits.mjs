// Exits right after it releases a lease or aborts an acquire, without awaiting either. The arguments are the URL of the
// node, and "released" or "aborted".
import { Redlock } from "redlock-native";

const [node, ending] = process.argv.slice(2);
const client = new Redlock(node, { clientName: `left-${ending}` });
const lock = client.lock(`left-${ending}`, { ttl: 60_000 });
// Afterwards the connection is open, and this thread reads its replies.
for (let turn = 0; turn < 200; turn += 1) await (await lock.acquire()).release();

if (ending === "released") {
  const lease = await lock.acquire();
  lease.release();
} else {
  const controller = new AbortController();
  lock.acquire({ signal: controller.signal }).catch(() => undefined);
  controller.abort();
}
process.exit();
