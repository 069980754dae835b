// Crowds of waiters on one client of whom some leave: the others are served, in the order in which they came.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { fresh, serverForSuite } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const CROWD = 50;
/** Waiters ask anyway after up to a second: somebody whom nobody woke costs half of one at least. */
const STALL = 500;

const shared = serverForSuite();
const numbers = [...Array(CROWD).keys()];
const ascending = (order) => order.toSorted((a, b) => a - b);

/** Starts the crowd behind a holder of `all`; half of it is aborted at random; who was served, and who was to be. */
async function crowd(redlock, all, choices) {
  const [order, inside] = [[], new Map()];
  const leavers = new Set(numbers.toSorted(() => Math.random() - 0.5).slice(0, CROWD / 2));
  const gaps = [];
  let last = Number.POSITIVE_INFINITY;

  async function wait(number) {
    const names = choices[number % choices.length];
    const leave = leavers.has(number)
      ? AbortSignal.timeout(50 + Math.floor(Math.random() * 250))
      : undefined;
    await redlock.lock(names).using(
      async () => {
        gaps.push(performance.now() - last);
        order.push(number);
        for (const name of names) {
          assert.ok(!inside.has(name), `${inside.get(name)} and ${number} hold ${name}`);
          inside.set(name, number);
        }
        await sleep(3);
        for (const name of names) inside.delete(name);
        last = performance.now();
      },
      { signal: leave },
    );
  }

  const holder = await redlock.lock(all).acquire();
  const waiting = numbers.map(wait);
  const ended = Promise.allSettled(waiting);
  await sleep(100);
  last = performance.now();
  await holder.release();
  const left = (await ended).filter(({ status }) => status === "rejected");
  for (const { reason } of left) assert.equal(reason.name, "TimeoutError", reason);
  const median = ascending(gaps)[gaps.length >> 1];
  assert.ok(median < STALL, `${median} ms: the next one was not woken`);
  assert.equal(order.length + left.length, CROWD);
  assert.ok(numbers.every((number) => leavers.has(number) || order.includes(number)));
  return order;
}

for (const kind of ["memory", "redis"]) {
  describe(kind, () => {
    const client = () => new Redlock(kind === "memory" ? `memory://${fresh()}` : shared.server.url);

    test("promises that are aborted leave the others in order", async () => {
      const name = fresh();
      const order = await crowd(client(), [name], [[name]]);
      assert.deepEqual(order, ascending(order));
    });

    test("crowds over several names never block each other", async () => {
      const [a, b, c] = [fresh("a"), fresh("b"), fresh("c")];
      const choices = [[a, b], [b, a], [b, c], [c, a], [c]];
      const order = await crowd(client(), [c, b, a], choices);
      for (const first of choices.keys()) {
        const same = order.filter((number) => number % choices.length === first);
        assert.deepEqual(same, ascending(same));
      }
    });
  });
}
