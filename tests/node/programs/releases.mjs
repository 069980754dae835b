// Holds the lock named by its argument until its input ends.
import { Redlock } from "redlock-native";

const lease = await new Redlock(process.argv[2]).lock(process.argv[3], { ttl: 60_000 }).acquire();
console.log("held");
process.stdin.resume().once("end", () => lease.release());
