// A BullMQ worker whose jobs take the same locks.
import { Worker } from "bullmq";
import { Redis } from "ioredis";
import { hold, shutdown } from "./holder.mjs";

const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
connection.on("error", () => undefined);
const settings = { connection, concurrency: 3, lockDuration: 2_000, stalledInterval: 1_000 };
const worker = new Worker("kills", ({ data }) => hold(data.name), {
  ...settings,
  maxStalledCount: 1_000,
});
worker.on("error", () => undefined);

process.once("SIGTERM", async () => {
  await worker.close();
  await shutdown();
  await connection.quit();
});
