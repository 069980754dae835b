// Tens of thousands of calls leave no resource behind in the process, including aborted, refused and lost ones.
import assert from "node:assert/strict";
import { program, serverForSuite, uniqueName } from "./helper.mjs";
import { slow } from "./testing.mjs";

const shared = serverForSuite();
const ROUNDS = Number(process.env.ROUNDS ?? 30_000);
/** A longer run has the same limit for each call. */
const LONGER = Math.max(1, ROUNDS / 30_000);
const MB = 2 ** 20;

/** A leak shows in every burst, while the allocator's behaviour shows only in some. So the least growth counts. */
const growth = ({ before, between, after }, what) =>
  Math.min(between[what] - before[what], after[what] - between[what]);

for (const [kind, url] of [
  ["memory://", () => `memory://${uniqueName()}`],
  ["redis://", () => shared.server.url],
]) {
  slow(
    "it counts what 90,000 calls leave behind",
    `${kind}: memory, files, threads, handles and listeners do not grow`,
    async (context) => {
      const ended = await program("cycles", [url(), ROUNDS], {
        flags: ["--expose-gc"],
        timeout: 60_000 * LONGER,
      });
      assert.equal(ended.code, 0, ended.stderr);
      const seen = JSON.parse(ended.lines.at(-1));
      const { before, after, counts } = seen;
      context.diagnostic(ended.lines.at(-1));
      // Three bursts: the first warms up, the other two are compared.
      const total = Object.values(counts).reduce((sum, each) => sum + each, 0);
      assert.equal(total, 3 * ROUNDS, JSON.stringify(counts));
      for (const [way, count] of Object.entries(counts)) assert.ok(count >= 1000, way);
      for (const what of ["files", "threads", "handles", "leases", "listeners"]) {
        assert.ok(after[what] <= before[what], `${what}: ${JSON.stringify(seen)}`);
      }
      assert.equal(after.leases, 0);
      // 17 and 140 bytes a call.
      assert.ok(growth(seen, "heap") < 0.5 * MB * LONGER, JSON.stringify(seen));
      assert.ok(growth(seen, "rss") < 4 * MB * LONGER, JSON.stringify(seen));
    },
  );
}
