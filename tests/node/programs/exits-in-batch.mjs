// Ends the process right after it releases the first of two leases whose grants arrived together. The arguments are the
// URL of the node, its port, and the names.
import { execFileSync } from "node:child_process";
import { Redlock } from "redlock-native";

const [node, port, ...names] = process.argv.slice(2);
const client = new Redlock(node, { clientName: "left-batch" });
const locks = names.map((name) => client.lock(name, { ttl: 60_000 }));
// Afterwards the connection is open, and this thread reads its replies.
for (let turn = 0; turn < 200; turn += 1) await (await locks[0].acquire()).release();

const acquiring = locks.map((lock) => lock.acquire());
// This thread is blocked until the server has granted both.
const keys = locks.map(({ key }) => key);
const granted = () =>
  execFileSync("redis-cli", ["-p", port, "EXISTS", ...keys], { encoding: "utf8" });
while (Number(granted()) < keys.length);
const lease = await acquiring[0];
void lease.release();
process.exit();
