// Code that the oldest supported compiler, TypeScript 5.0, must accept: no `using` declarations.
import { LockError, type LockLost, Redlock, withLock } from "redlock-native";

const redlock = new Redlock("memory://", { keyPrefix: undefined });

export async function main(signal?: AbortSignal): Promise<string> {
  const lease = await redlock.lock("a", { ttl: 1000, fencing: true }).acquire({ signal });
  const token: number = lease.fencingToken;
  const dispose: () => Promise<void> = lease[Symbol.asyncDispose];
  lease.onLost((error: LockLost) => error.reason)();
  await lease.release();
  const text: string = await withLock("a", { wait: 0, signal }, (held) => held.key);
  // @ts-expect-error the types are seen
  const wrong: number = lease.key;
  void [token, dispose, wrong];
  return text;
}

export const reason = (error: unknown): string | undefined =>
  error instanceof LockError ? error.reason : undefined;
