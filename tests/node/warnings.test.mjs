// Warnings: where they go, what is said once, and what is not said at all.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { onWarning, Redlock } from "redlock-native";
import { eventually, fresh, refusal } from "./helper.mjs";
import { after, before, beforeEach, describe, test } from "./testing.mjs";

const heard = [];
const texts = () => heard.map(({ message }) => message);

before(() => onWarning((warning) => heard.push(warning)));
after(() => onWarning(null));
beforeEach(async () => {
  // What is counted of the test before.
  await sleep(1_100);
  heard.length = 0;
});

const client = () => new Redlock(`memory://${fresh()}`);

describe("onWarning", () => {
  test("hears of a warning instead of the process", async (context) => {
    const emitted = context.mock.method(process, "emitWarning", () => undefined);
    const redlock = client();
    await redlock.lock("job").acquire();
    redlock.close();
    await eventually(() => assert.equal(heard.length, 1));
    const [warning] = heard;
    assert.match(
      warning.message,
      /^lease lost key=lock:job reason=closed token=[0-9a-f]{8} held_ms=/,
    );
    assert.deepEqual([warning.name, warning.code], ["RedlockWarning", "REDLOCK"]);
    assert.ok(warning instanceof Error);
    assert.equal(emitted.mock.callCount(), 0);
  });

  test("takes a function, or null", () => {
    for (const wrong of [undefined, "console.log", {}]) {
      assert.throws(() => onWarning(wrong), refusal(["onWarning()", "function"]));
    }
  });
});

describe("a loss", () => {
  const ways = {
    onLost: (lease) => lease.onLost(() => undefined),
    "lease.signal": (lease) => lease.signal,
  };
  for (const [name, listen] of Object.entries(ways)) {
    test(`that ${name} tells is no warning`, async () => {
      const redlock = client();
      const [one, other] = [fresh(), fresh()];
      listen(await redlock.lock(one).acquire());
      await redlock.lock(other).acquire();
      redlock.close();
      await eventually(() => assert.equal(heard.length, 1));
      await sleep(50);
      assert.match(
        texts().join(),
        new RegExp(`^lease lost key=lock:${other} reason=closed [^,]*$`),
      );
    });
  }

  test("that nobody listens for any more is one again", async () => {
    const redlock = client();
    const lease = await redlock.lock("job").acquire();
    lease.onLost(() => undefined)();
    redlock.close();
    await eventually(() => assert.equal(heard.length, 1));
  });

  test("of a later lease on the same key is one, whoever listened to the one before", async () => {
    const redlock = client();
    const first = await redlock.lock("job").acquire();
    first.onLost(() => undefined);
    await first.release();
    assert.equal(first.signal.aborted, false);
    await redlock.lock("job").acquire();
    redlock.close();
    await eventually(() => assert.equal(heard.length, 1));
  });
});

test("of thousands of a kind a few are said, and how many more there were", async () => {
  const redlock = client();
  const names = Array.from({ length: 2_000 }, () => fresh());
  await Promise.all(names.map((name) => redlock.lock(name).acquire()));
  redlock.close();
  await eventually(() => assert.match(texts().at(-1) ?? "", /and 1,?989 more such warnings/));
  assert.equal(heard.length, 11);
});

test("a long hold is warned of once for each place", async () => {
  const redlock = client();
  const lock = (name) => redlock.lock(name, { ttl: 4_500 });
  const leases = [];
  for (const name of ["a", "b", "c"]) leases.push(await lock(name).acquire());
  leases.push(await lock("d").acquire());
  // Never shortens: they stay held, however busy the machine is.
  await Promise.all(leases.map((lease) => lease.extend(100)));
  await eventually(() => assert.equal(heard.length, 2, texts().join("\n")));
  await sleep(300);
  const places = texts().map((text) => /^held for more than ten times.*:(\d+):\d+/.exec(text)?.[1]);
  assert.equal(new Set(places).size, 2, texts().join("\n"));
  assert.equal(heard.length, 2);
  for (const lease of leases) await lease.release();
  redlock.close();
});
