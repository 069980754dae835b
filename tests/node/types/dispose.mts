// `await using`, compiled for a Node.js version without it.
import { Redlock } from "redlock-native";

const lock = new Redlock("memory://").lock("scoped");
const free = async () => (await lock.inspect()).held === false;

async function scope(): Promise<boolean> {
  await using lease = await lock.acquire();
  return lease.held && !(await free());
}

const inside = await scope();
console.log(JSON.stringify({ inside, after: await free() }));
