// Gives up its only pending call: nothing is left to keep the process.
import { Redlock } from "redlock-native";

const lock = new Redlock(process.argv[2]).lock("given-up");
const controller = new AbortController();
lock.acquire({ signal: controller.signal }).catch((error) => console.log(error.name));
setTimeout(() => controller.abort(), 100);
