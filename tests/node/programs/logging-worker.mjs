// A worker that passes on the log events of one lock until its release.
import { parentPort, workerData } from "node:worker_threads";
import { onLog } from "redlock-native";

const alive = setInterval(() => undefined, 1_000);
const stop = onLog(({ event, fields }) => {
  if (fields.key !== `lock:${workerData.name}`) return;
  parentPort.postMessage(event);
  if (event !== "released") return;
  stop();
  clearInterval(alive);
});
parentPort.postMessage("ready");
