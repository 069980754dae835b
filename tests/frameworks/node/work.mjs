// The work of the recipes under their locks, while the tests count concurrent executions.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const redis = new Redis(process.env.REDIS_URL);
const WORK = Number(process.env.WORK ?? 50);

/** Counts the concurrent executions. */
async function inside(body) {
  await redis.rpush("seen", await redis.incr("inside"));
  try {
    return await body();
  } finally {
    await redis.decr("inside");
  }
}

export const charge = (number, lease) =>
  inside(async () => {
    await sleep(WORK, undefined, { signal: lease.signal });
    return { number, held: lease.held };
  });

export const work = (what) =>
  inside(async () => {
    await sleep(WORK);
    console.log(`worked ${what}`);
    return `worked ${what}`;
  });

/** A store without any exclusion. Two concurrent requests are booked twice. */
export const payments = {
  async find(id) {
    const found = await redis.get(`payment:${id}`);
    await sleep(WORK);
    return found === null ? undefined : JSON.parse(found);
  },
  async book({ id, amount }) {
    const booked = { id, amount, number: await redis.incr(`booked:${id}`) };
    await redis.set(`payment:${id}`, JSON.stringify(booked));
    return booked;
  },
};

/** The last call, because an open connection keeps its process alive. */
export const end = () => redis.quit();
