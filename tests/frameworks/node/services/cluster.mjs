// A cluster of four workers that take locks in a loop. A killed worker is replaced.
import cluster from "node:cluster";

const NAMES = process.env.NAMES.split(",");

if (cluster.isPrimary) {
  // Ends with the test, because no other process would end it.
  process.stdin.on("end", () => process.exit(1)).resume();
  process.stdin.unref();
  let ending = false;
  for (let at = 0; at < 4; at += 1) cluster.fork();
  cluster.on("exit", () => {
    if (!ending) cluster.fork();
  });
  process.once("SIGTERM", () => {
    ending = true;
    for (const worker of Object.values(cluster.workers)) worker.process.kill("SIGTERM");
  });
} else {
  const { hold, shutdown } = await import("./holder.mjs");
  let ending = false;
  process.once("SIGTERM", async () => {
    ending = true;
    await shutdown();
    cluster.worker.disconnect();
  });
  while (!ending) await hold(NAMES[Math.floor(Math.random() * NAMES.length)]);
}
