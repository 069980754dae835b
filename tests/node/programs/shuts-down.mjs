// Shuts down while a lease is held and nothing else keeps the process alive.
import { Redlock } from "redlock-native";

const redlock = new Redlock(process.argv[2]);
const lease = await redlock.lock("ends", { ttl: 60_000 }).acquire();
lease.onLost((error) => console.log(`told ${error.reason}`));
redlock.shutdown(300).then((count) => console.log(`took ${count} back`));
