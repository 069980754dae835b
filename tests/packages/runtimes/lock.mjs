// Required of every runtime: exclusion, waiting, aborts, loss notifications, and a normal end. Takes a URL.
import { LockTimeout, Redlock } from "redlock-native";

const [url] = (globalThis.Deno?.args ?? process.argv.slice(2)).slice(-1);
const check = (holds, what) => {
  if (!holds) throw new Error(what);
};

const [ours, theirs] = [new Redlock(url), new Redlock(url)];
const lock = ours.lock("runtime", { ttl: 10_000 });

const lease = await lock.acquire();
const refused = await theirs
  .lock("runtime", { wait: 1000 })
  .acquire()
  .catch((error) => error);
check(refused instanceof LockTimeout && refused.kind === "timeout", `not refused: ${refused}`);

const aborted = theirs.lock("runtime").acquire({ signal: AbortSignal.timeout(200) });
check((await aborted.catch((error) => error)).name === "TimeoutError", "the signal did not abort");

const waiting = theirs.lock("runtime", { wait: 10_000 }).acquire();
await lease.release();
await (await waiting).release();

// Waiting for a loss does not keep a process alive. Work does.
const work = setTimeout(() => process.exit(1), 20_000);
const told = await lock
  .using(async ({ signal }) => {
    const lost = new Promise((resolve) => signal.addEventListener("abort", resolve));
    check(await theirs.forceRelease("runtime"), "nothing to delete");
    await lost;
  })
  .catch((error) => error);
clearTimeout(work);
check(told?.kind === "lost" && told.reason === "missing", `told ${told}`);

console.log("every way");
