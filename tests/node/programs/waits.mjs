// Waits for a lock that another client holds. The process stays alive until it has acquired it.
import { Redlock } from "redlock-native";

const lock = new Redlock(process.argv[2]).lock("waited");
console.log("waiting");
lock.acquire().then(async (lease) => {
  console.log(lease.token);
  lease.release().then(() => console.log("released"));
});
