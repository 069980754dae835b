// Holds a lease with renewal, a watched signal and nothing else. The process ends.
import { Redlock } from "redlock-native";

const lease = await new Redlock(process.argv[2]).lock("held", { ttl: 4000 }).acquire();
lease.onLost(() => console.log("lost"));
console.log(lease.token);
