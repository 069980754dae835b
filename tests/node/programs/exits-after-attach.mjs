// Ends the process when the first of two outcomes that arrived together is received. The other one is that of an
// `attach`. The arguments are the URL of the node, its port, the names, and the token of the holder.
import { execFileSync } from "node:child_process";
import { Redlock } from "redlock-native";

const [node, port, name, attached, token] = process.argv.slice(2);
const client = new Redlock(node, { clientName: "left-attach" });
const [lock, other] = [name, attached].map((each) => client.lock(each, { ttl: 60_000 }));
// Afterwards the connection is open, and this thread reads its replies.
for (let turn = 0; turn < 200; turn += 1) await (await lock.acquire()).release();

const acquiring = lock.acquire();
other.attach(token).catch(() => undefined);
// This thread is blocked until the server has granted the one and extended the other.
const left = (key) => Number(execFileSync("redis-cli", ["-p", port, "PTTL", key]));
while (left(lock.key) < 0 || left(other.key) < 30_000);
await acquiring;
process.exit();
