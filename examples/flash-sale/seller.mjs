// Sells tickets until none is left or LIMIT is reached: reads the stock, checks it, writes it. seller.mjs URL
// GUARDED(1|0) LIMIT TTL PAUSE    (seconds)
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { connect } from "./resp.mjs";

const [url, guarded, limit, ttl, pause] = process.argv.slice(2);
const shop = connect(url);
const lock = new Redlock([url]).lock("flash-sale", { ttl: Number(ttl) * 1000 });
const now = () => Number(process.hrtime.bigint());

// Sells one ticket. A real shop needs the pause to charge a card.
async function sell() {
  const from = now();
  const stock = Number(await shop.send("GET", "stock"));
  if (stock === 0) return false;
  console.log("selling");
  await sleep(Number(pause) * 1000);
  await shop.send("SET", "stock", stock - 1);
  const entry = { seller: `node ${process.pid}`, from, to: now() };
  await shop.send("RPUSH", "ledger", JSON.stringify(entry));
  return true;
}

console.log("ready");
await once(process.stdin, "data");
for (let sale = 0; sale < Number(limit); sale++) {
  const sold = guarded === "1" ? await lock.using(sell) : await sell();
  if (!sold) break;
  await sleep(Math.random() * 20); // the next buyer
}
shop.close();
process.stdin.destroy();
