// The output of NODE_DEBUG=redlock.
import { Redlock } from "redlock-native";

const client = new Redlock("memory://");
const lock = client.lock("job", { wait: 0 });
const lease = await lock.acquire();
await lock.tryAcquire();
await lock.acquire().catch(() => undefined);
await lease.extend(20_000);
await lease.release();
const other = await lock.acquire();
const told = new Promise((resolve) => other.onLost(resolve));
await client.forceRelease("job");
// A listener for a loss does not keep the process alive.
const stays = setTimeout(() => undefined, 60_000);
await told;
clearTimeout(stays);
client.close();
