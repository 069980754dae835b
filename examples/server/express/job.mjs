// The server's work: one job at a time, for all callers and all servers.
import { setTimeout as sleep } from "node:timers/promises";

const WORK = 900;

/**
 * Responds with 200 once the job is done, or immediately with 409 if it is already running on this or another server.
 */
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
