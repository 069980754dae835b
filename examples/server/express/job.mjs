// What the server does: one job at a time, whoever asks and however many servers there are.
import { setTimeout as sleep } from "node:timers/promises";

const WORK = 900;

/** Answers 200 once the job is done, 409 at once if it is running already: here or on another server. */
export function jobHandler(redlock, name) {
  const lock = redlock.lock(name, { ttl: 1000, wait: 0 });
  return async (_request, response) => {
    try {
      await lock.using((lease) => sleep(WORK, undefined, { signal: lease.signal }));
      response.writeHead(200).end("done\n");
    } catch (error) {
      if (error.kind !== "timeout") throw error;
      response.writeHead(409).end("running already\n");
    }
  };
}
