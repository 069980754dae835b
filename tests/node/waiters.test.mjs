// Many waiters on one client, of which some leave. The others are served in the order of their arrival.
import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { serverForSuite, uniqueName, waiting } from "./helper.mjs";
import { describe, slow, test } from "./testing.mjs";

const CROWD = 50;
/** Milliseconds. A waiter that was not woken tries again half a second later on average. */
const STALL = 500;

const shared = serverForSuite();
const numbers = [...Array(CROWD).keys()];
const ascending = (order) => order.toSorted((a, b) => a - b);
const shuffled = (some) => some.toSorted(() => Math.random() - 0.5);

/**
 * Starts the crowd behind a holder of `all`. Half of it is aborted in random order: some while the holder still holds,
 * and one with each caller that is served. Returns the order of the served callers, and the times between them.
 */
async function crowd(redlock, all, choices) {
  const [order, inside, gaps] = [[], new Map(), []];
  const leavers = new Map(
    shuffled(numbers)
      .slice(0, CROWD / 2)
      .map((number) => [number, new AbortController()]),
  );
  const early = CROWD / 5;
  const controllers = [...leavers.values()];
  let last = Number.POSITIVE_INFINITY;

  async function wait(number) {
    const names = choices[number % choices.length];
    await redlock.lock(names).using({ signal: leavers.get(number)?.signal }, async () => {
      gaps.push(performance.now() - last);
      order.push(number);
      for (const name of names) {
        const other = inside.get(name);
        assert.equal(other, undefined, `two holders: ${other} and ${number} hold ${name}`);
        inside.set(name, number);
      }
      controllers.pop()?.abort();
      await nextTurn();
      for (const name of names) inside.delete(name);
      last = performance.now();
    });
  }

  const holder = await redlock.lock(all).acquire();
  const ended = Promise.allSettled(numbers.map(wait));
  await waiting(redlock, CROWD);
  for (const controller of controllers.splice(-early)) controller.abort();
  last = performance.now();
  await holder.release();
  const left = (await ended).filter(({ status }) => status === "rejected");
  for (const { reason } of left) assert.equal(reason.name, "AbortError", reason);
  assert.ok(left.length >= early, `${left.length} left`);
  assert.equal(order.length + left.length, CROWD);
  assert.ok(numbers.every((number) => leavers.has(number) || order.includes(number)));
  return { order, gaps };
}

for (const kind of ["memory", "redis"]) {
  describe(kind, () => {
    const client = () =>
      new Redlock(kind === "memory" ? `memory://${uniqueName()}` : shared.server.url);

    test("aborted waiters leave the order of the others unchanged", async () => {
      const name = uniqueName();
      const { order } = await crowd(client(), [name], [[name]]);
      assert.deepEqual(order, ascending(order));
    });

    slow("it compares durations", "the next waiter is woken immediately", async () => {
      const name = uniqueName();
      const { gaps } = await crowd(client(), [name], [[name]]);
      const median = ascending(gaps)[gaps.length >> 1];
      assert.ok(median < STALL, `${median} ms: the next waiter was not woken`);
    });

    test("many waiters on overlapping names never deadlock", async () => {
      const [a, b, c] = [uniqueName("a"), uniqueName("b"), uniqueName("c")];
      const choices = [[a, b], [b, a], [b, c], [c, a], [c]];
      const { order } = await crowd(client(), [c, b, a], choices);
      for (const first of choices.keys()) {
        const same = order.filter((number) => number % choices.length === first);
        assert.deepEqual(same, ascending(same));
      }
    });
  });
}
