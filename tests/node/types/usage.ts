// What TypeScript users may write, and what they may not.
import {
  configure,
  type ErrorKind,
  type Inspection,
  InvalidOption,
  type Lease,
  type Lock,
  LockError,
  LockLost,
  type LockOptions,
  type LogEvent,
  type LossReason,
  lock,
  type NodeState,
  onLog,
  Redlock,
  type RedlockOptions,
  type Stats,
  withLock,
} from "redlock-native";

import { instrument } from "redlock-native/otel";
import { TestRedlock } from "redlock-native/testing";

const clientOptions: RedlockOptions = { keyPrefix: "", nodeTimeout: 500, restartGuard: 0 };
const tls: RedlockOptions = { tlsCa: "a", tlsCert: "b", tlsKey: "c", tlsServerName: "d" };
const redlock = new Redlock(["redis://a", "redis://b"] as const, { ...clientOptions, ...tls });
export const ofUrls = [new Redlock(new URL("redis://a")), new Redlock([new URL("redis://a")])];
const options = {
  ttl: 10_000,
  wait: Number.POSITIVE_INFINITY,
  renew: true,
  fencing: true,
} as const satisfies LockOptions;
const described: Lock<true> = redlock.lock(["a", "b"], options);

export async function verbs(signal: AbortSignal): Promise<void> {
  const lease: Lease<true> = await described.acquire({ signal, wait: 5 });
  const tried: Lease | null = await described.tryAcquire({ signal });
  await lease.extend(1000);
  await lease.extend();
  const remove: () => void = lease.onLost((error: LockLost) => error.reason === "expired");
  remove();
  const facts: [boolean, number, string, string, number] = [
    lease.held,
    lease.remaining,
    lease.key,
    lease.token,
    lease.fencingToken,
  ];
  const more: [string[], string[], number] = [described.names, lease.keys, lease.ttl];
  lease.ensureHeld();
  await lease.release();
  const seen: Inspection = await described.inspect();
  const state: "free" | "held" | "kept" | "fault" | undefined = seen.nodes[0]?.state;
  const key: string | undefined = seen.nodes[0]?.key;
  const held: Lease[] = redlock.leases();
  const done: [boolean, number] = [await redlock.forceRelease("a"), await redlock.releaseAll()];
  done[1] += (await redlock.shutdown()) + (await redlock.shutdown(5000));
  await fetch("http://localhost", { signal: lease.signal });
  void [tried, facts, more, state, key, held, done];
}

export async function scopes(): Promise<string> {
  const text: string = await redlock.using("a", async (lease) => lease.token);
  const sum: number = await redlock.using("a", { ttl: 1000 }, () => 1 + 1);
  await withLock(["a", "b"], options, async ({ signal }) => signal.throwIfAborted());
  await withLock("a", () => undefined);
  await withLock("a", { wait: 5, signal: AbortSignal.timeout(5) }, () => undefined);
  await lock("a").using({ wait: 0 }, (lease) => lease.key);
  await using held = await lock("a").acquire();
  await using client = new Redlock("memory://");
  void [sum, held, client];
  return text;
}

/** The words of errors and results are unions. */
export function words(error: LockError, redlock: Redlock): number {
  const kind: ErrorKind = error.kind;
  const state: NodeState | undefined = error.nodes[0]?.state;
  const code: "ERR_REDLOCK_LOST" | "ERR_REDLOCK_TIMEOUT" | undefined =
    error.code === "ERR_REDLOCK_LOST" || error.code === "ERR_REDLOCK_TIMEOUT"
      ? error.code
      : undefined;
  const lost: Record<LossReason, number> = redlock.stats().lost;
  const reason: LossReason = "expired" as keyof typeof lost & keyof Stats["lost"];
  const none: LossReason | undefined = undefined as keyof Stats["lost"] | undefined;
  // @ts-expect-error no kind has this name
  const misspelled = error.kind === "time_out";
  // @ts-expect-error no code has this name
  const wrong = error.code === "ERR_REDLOCK_LOSS";
  // @ts-expect-error no state has this name
  const failed = error.nodes[0]?.state === "failed";
  // @ts-expect-error no reason has this name
  const typo = redlock.stats().lost.exipred;
  void [kind, state, code, reason, none, misspelled, wrong, failed, typo];
  return lost.expired + redlock.stats().lost.max_hold;
}

export function errors(error: unknown): string | undefined {
  if (error instanceof LockLost) return error.reason;
  if (error instanceof InvalidOption) return error.kind satisfies "invalid";
  if (error instanceof LockError) return error.resource ?? error.nodes[0]?.error;
  return undefined;
}

configure("redis://a", { replace: true });

/** With `exactOptionalPropertyTypes`: an unset value can be passed on unchanged. */
export async function unset(ttl?: number, signal?: AbortSignal, url?: string): Promise<void> {
  const lockOptions = { ttl, wait: ttl, renew: undefined, maxHold: ttl, fencing: undefined };
  const tls = { tlsCa: url, tlsCert: url, tlsKey: url, tlsServerName: url, tlsVerify: undefined };
  const rest = { keyPrefix: url, clientName: url, minReplicas: ttl, fsync: undefined };
  const made = { ...tls, ...rest, nodeTimeout: ttl, restartGuard: ttl };
  configure("redis://a", { ...made, credentials: undefined, replace: undefined });
  const unfenced = redlock.lock("a", { ...lockOptions, nodeTimeout: ttl });
  await unfenced.tryAcquire({ signal });
  const lease = await unfenced.acquire({ signal, wait: ttl });
  await lease.extend(ttl);
  await redlock.using("a", { ...lockOptions, signal }, () => undefined);
  throw new LockError("text", { resource: url, waited: ttl, reason: undefined, cause: undefined });
}

/** The helpers for tests. */
export async function forced(): Promise<boolean> {
  const isolated: Redlock = new TestRedlock({ keyPrefix: "app:" });
  const test = new TestRedlock();
  const theirs: Lease = await test.hold(["a", "b"], { ttl: 1000 });
  test.fail();
  test.recover();
  await isolated.shutdown();
  return (await test.lose("a")) && theirs.held;
}

/** Only a lock with `fencing: true` has leases with a token. Each of them can be used as any lease. */
export async function fencing(given: LockOptions): Promise<number> {
  const anyLease = (lease: Lease): string => lease.token;
  const token: number = await lock("a", { fencing: true }).using((lease) => lease.fencingToken);
  await withLock("a", { fencing: true }, async (lease) => lease.fencingToken.toFixed());
  await redlock.using("a", { ttl: 5, fencing: true }, (lease) => anyLease(lease));
  await redlock.using("a", (lease) => anyLease(lease));
  await redlock.lock("a").using(anyLease);
  // @ts-expect-error without fencing, no token
  const none: number = await redlock.lock("a", { ttl: 5 }).using((lease) => lease.fencingToken);
  // @ts-expect-error an attached lease has none
  const theirs: number = (await redlock.attach("a", "token")).fencingToken;
  // @ts-expect-error the value of fencing is not known
  const perhaps: number = (await redlock.lock("a", given).acquire()).fencingToken;
  return token + none + theirs + perhaps;
}

const stopLogging: () => void = onLog(
  ({ level, logger, event, message, fields }: LogEvent) => {
    const key: string | number | undefined = fields.key;
    console[level](logger, event, message, key);
  },
  { level: "info" },
);
stopLogging();
// @ts-expect-error an unknown level
onLog(() => undefined, { level: "trace" });
instrument([redlock], { meterProvider: undefined });
// @ts-expect-error not a client
instrument("memory://");

// @ts-expect-error a number is not options
redlock.lock("a", 1000);
// @ts-expect-error another library's option
redlock.lock("a", { retryCount: 3 });
// @ts-expect-error a signal belongs to one acquire
redlock.lock("a", { signal: AbortSignal.timeout(5) });
// @ts-expect-error one round has no wait
described.tryAcquire({ wait: 5 });
// @ts-expect-error nodes are needed
new Redlock();
// @ts-expect-error only a lease can be released
described.release();
// @ts-expect-error a lease is read-only
export const write = (lease: Lease) => (lease.key = "b");
// @ts-expect-error its ttl is read-only too
export const writeTtl = (lease: Lease) => (lease.ttl = 1);
