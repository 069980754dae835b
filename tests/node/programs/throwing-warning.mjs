// A listener of warnings that throws. The argument says how. Ends after the warning about the listener.
import { once } from "node:events";
import { runInNewContext } from "node:vm";
import { onWarning, Redlock } from "redlock-native";

const seen = [];
const listeners = {
  throws: ({ message }) => {
    seen.push(message);
    throw new Error("theirs");
  },
  rejects: async ({ message }) => {
    seen.push(message);
    await undefined;
    throw new Error("theirs");
  },
  "rejects in another realm": runInNewContext(
    `async ({ message }) => {
      seen.push(message);
      await undefined;
      throw new Error("theirs");
    }`,
    { seen },
  ),
};
onWarning(listeners[process.argv[2]]);
const tooLate = setTimeout(() => process.exit(1), 10_000);
const reported = once(process, "warning");
const client = new Redlock("memory://");
await client.lock("job").acquire();
client.close();
const [{ code, message }] = await reported;
console.log(seen.length, code, message);
clearTimeout(tooLate);
