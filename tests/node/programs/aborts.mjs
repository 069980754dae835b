// Aborts its only pending call, so that nothing keeps the process alive.
import { Redlock } from "redlock-native";

const lock = new Redlock(process.argv[2]).lock("given-up");
const controller = new AbortController();
lock.acquire({ signal: controller.signal }).catch((error) => console.log(error.name));
setTimeout(() => controller.abort(), 100);
