// Tests of which one hangs and leaves a resource open.
import { test } from "../testing.mjs";

test("this one hangs", async () => {
  setInterval(() => undefined, 1000);
  await new Promise(() => undefined);
});
test("this one goes on", () => undefined);
