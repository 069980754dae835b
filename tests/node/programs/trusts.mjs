// Creates a client for a node with TLS, and the default client. Prints what a single attempt of each says.
import { lock, Redlock } from "redlock-native";

const [url] = process.argv.slice(2);
process.env.REDIS_URL = url;

for (const make of [() => new Redlock(url).lock("own"), () => lock("default")]) {
  try {
    const lease = await make().tryAcquire();
    await lease?.release();
    console.log("trusted");
  } catch (error) {
    console.log(`${error.kind}: ${error.message} ${error.nodes?.[0]?.error}`);
  }
}
process.exit(0);
