// Runs a body that only waits for the end of its lease. The arguments are the name of the call, or what the program does
// while the body waits.
import { once } from "node:events";
import { Redlock } from "redlock-native";

const client = new Redlock("memory://");
const options = { maxHold: 500 };
const name = "body";
let terms = 0;

/** Returns the reason of the loss. */
async function untilLost({ signal }) {
  await once(signal, "abort");
  return signal.reason.reason;
}
/** Never settles. */
const stuck = () => new Promise(() => undefined);

function later(action) {
  setImmediate(action);
  return stuck();
}

/** Waits for the loss of the first term. The second term resigns. */
async function lead(lease) {
  terms += 1;
  if (terms === 1) await untilLost(lease);
  return `term ${terms}`;
}

const calls = {
  using: () => client.using(name, options, untilLost),
  read: () => client.rwlock(name).read(options).using(untilLost),
  once: () => client.once(name, { ...options, remember: 1_000 }).run(untilLost),
  leader: () => client.leader(name, options).run(lead),
  close: () => client.using(name, () => later(() => client.close())),
  released: () => client.using(name, async (lease) => stuck(await lease.release())),
  detached: () => client.using(name, (lease) => stuck(lease.detach())),
  exit: () => client.using(name, () => later(() => process.exit(7))),
};

const show = (result) => console.log(JSON.stringify(result));
calls[process.argv[2]]().then(show, ({ kind, reason }) => show({ kind, reason }));
