/** Checks the names and types of options. Core checks their values. */

import { isUint8Array } from "node:util/types";
import { InvalidOption } from "../errors/errors.js";
import {
  clientOptions,
  insteadOf,
  leaderOptions,
  lockOptions,
  type OptionRow,
  onceOptions,
  semaphoreOptions,
  shown,
  sideOptions,
} from "../native.js";
import { defaultTrust } from "../platform/trust.js";
import { addressEntries, describeAddressMap } from "./address-map.js";
import { CallbacksHandle } from "./callbacks.js";
import type { RedlockOptions } from "./client-options.js";
import {
  describeType,
  formatValue,
  isList,
  isSignal,
  LONE_SURROGATE,
  readValue,
} from "./values.js";

export type { RedlockOptions } from "./client-options.js";

/** Options of a lock. Times are in ms, rounded to whole numbers. */
export interface LockOptions<Fencing extends boolean = boolean> {
  /**
   * Lifetime of the lease without renewal, in ms. Default 10,000, at least 100. With several nodes it must not exceed
   * `restartGuard`.
   */
  ttl?: number | undefined;
  /**
   * Maximum time that an acquire waits, in ms, for the holder and for failed nodes. 0 tries once. Default `Infinity`,
   * which waits for the holder forever, and for failed nodes up to the client's `unavailableAfter`.
   */
  wait?: number | undefined;
  /** Whether to renew the lease at a third of the TTL until it is released. Default true. */
  renew?: boolean | undefined;
  /** Maximum time to hold the lock, in ms. The lease is then lost with reason `max_hold`. Default none. */
  maxHold?: number | undefined;
  /**
   * Minimum time to keep the key after the acquire, in ms, even if the lease is released earlier. Default 0.
   */
  minHold?: number | undefined;
  /**
   * Timeout for the reply of one node, in ms. Must be below `ttl`. Default: the client's, or else min(1,000, ttl / 5),
   * with `fsync` min(3,000, ttl / 3).
   */
  nodeTimeout?: number | undefined;
  /** Whether to assign a fencing token, `lease.fencingToken`. Default false. */
  fencing?: Fencing | undefined;
  /**
   * Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII letters, digits
   * or characters of `._@-`. `true` writes the host and the process, `false` none. Default: the client's.
   *
   * Every client that can read the keys sees it, and any client can write any label.
   */
  label?: string | boolean | undefined;
}

/** Options of a semaphore. Times are in ms, rounded to whole numbers. */
export interface SemaphoreOptions extends Omit<LockOptions<false>, "fencing"> {
  /**
   * Number of permits, 1 to 1,000, and meant for up to 100. If clients use different limits, the largest applies.
   */
  limit: number;
  /** Number of permits of each lease, up to `limit`. An acquire gets all of them or none. Default 1. */
  permits?: number | undefined;
}

/** Options of `once`. Times are in ms, rounded to whole numbers. */
export interface OnceOptions extends ReaderOptions {
  /** How long a successful run is remembered, from its start. */
  remember: number;
  /** Maximum time to wait while another caller runs the body, and for failed nodes. Default 0, which tries once. */
  wait?: number | undefined;
}

/** Options of `leader`. Times are in ms, rounded to whole numbers. */
export interface LeaderOptions<Fencing extends boolean = boolean>
  extends Omit<LockOptions<Fencing>, "wait" | "renew" | "minHold" | "label"> {
  /**
   * Label of this candidate, which `current()` returns while it leads. 1 to 48 ASCII letters, digits or characters of
   * `._@-`. Default: the client's, or else that of `true`, which is the host and the process.
   */
  label?: string | true | undefined;
}

/** Options of a reader. Times are in ms, rounded to whole numbers. */
export type ReaderOptions = Omit<LockOptions<false>, "fencing" | "minHold">;

/** Options of a side of a read/write lock, with the side. */
export type SideOptions = LockOptions & { shared: boolean };

/** Options of a candidate, with the mark that tells them from those of a lock. */
export type CandidateOptions<Fencing extends boolean> = LeaderOptions<Fencing> & { leads: true };

/** Options of `tryAcquire`. */
export interface TryAcquireOptions {
  /** Ends the attempt when it aborts. No key remains. */
  signal?: AbortSignal | undefined;
}

/** Options of `acquire`. */
export interface AcquireOptions extends TryAcquireOptions {
  /** Overrides the lock's `wait`, in ms. */
  wait?: number | undefined;
}

/** Options of `withLock(names, options, body)` and `client.using`, for the lock and for its acquire. */
export interface UsingOptions<Fencing extends boolean = boolean> extends LockOptions<Fencing> {
  /** Ends the wait when it aborts. While the body runs, it aborts `lease.signal` with the same reason. */
  signal?: AbortSignal | undefined;
}

type Kind = OptionRow["kind"] | "signal";
/** The options of a call, each with its kind. */
export type Rules = Readonly<Record<string, Kind>>;

/** Reads the table of core. */
function rulesOf(options: OptionRow[]): Rules {
  return Object.fromEntries(options.map(({ name, kind }) => [name, kind]));
}

/** Options of `new Redlock()`. */
export const CLIENT = rulesOf(clientOptions());
/** Options of `configure()`. */
export const CONFIGURE: Rules = { ...CLIENT, replace: "boolean" };
/** Options of `lock()`, `semaphore()`, `once()` and `leader()`. */
export const LOCK = rulesOf(lockOptions());
export const SEMAPHORE = rulesOf(semaphoreOptions());
export const ONCE = rulesOf(onceOptions());
export const LEADER = rulesOf(leaderOptions());
/** Options of `read()` and `write()`, with the side. */
const SIDE = rulesOf(sideOptions(false));
const { shared: _, ...READER }: Rules = rulesOf(sideOptions(true));
/** Options of all primitives. */
export const ANY_LOCK: Rules = { ...SIDE, ...SEMAPHORE, ...ONCE };

/** Returns the options that a description with these options may have. */
export function rulesFor(options: object): Rules {
  if ("limit" in options) return SEMAPHORE;
  if ("remember" in options) return ONCE;
  if ("leads" in options) return LEADER;
  return "shared" in options ? SIDE : LOCK;
}
/** Options of `acquire()` and `tryAcquire()`. */
export const ACQUIRE: Rules = { signal: "signal", wait: "milliseconds" };
export const TRY: Rules = { signal: "signal" };
/** Options of `withLock()` and `client.using()`. */
export const USING: Rules = { ...LOCK, signal: "signal" };
/** The argument of `shutdown()` and `ping()`. */
export const TIMEOUT: Rules = { timeout: "milliseconds" };

/** Whether values of this kind are in ms. */
function isTime(kind: Kind | undefined): boolean {
  return kind === "milliseconds" || kind === "milliseconds or null";
}

/** The shared result of calls without options. */
const NO_OPTIONS = Object.freeze({});

/**
 * Returns a copy of the options, after checking each name and the type of each value.
 *
 * Reads each value once, because a getter may return a different one the next time.
 */
export function checkOptions<T extends object>(
  given: T | undefined,
  rules: Rules,
  call: string,
): T {
  if (given === undefined) return NO_OPTIONS as T;
  if (typeof given === "number") {
    const instead = ["limit", "remember", "ttl", "wait"].find((name) => Object.hasOwn(rules, name));
    const unit = instead === "limit" ? "" : " in milliseconds";
    const action = instead
      ? `To set ${instead}${unit}, pass { ${instead}: ${given} }`
      : validOptions(rules);
    throw new InvalidOption(`${call}: options must be an object (got ${given}). ${action}`);
  }
  if (typeof given !== "object" || given === null || isList(given, call)) {
    throw new InvalidOption(
      `${call}: options must be an object (got ${describeType(given)}). ${validOptions(rules)}`,
    );
  }
  const own = readValue(() => Object.keys(given), call, "options");
  if (own.length === 0) checkEmpty(given, call);
  for (const name of readValue(() => enumerableNames(given), call, "options")) {
    if (!Object.hasOwn(rules, name)) throw unknownOption(name, rules, call);
  }
  const read: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(rules)) {
    const value = readValue(() => Reflect.get(given, name), call, name);
    if (value === undefined) continue;
    checkValue(name, value, kind, call);
    read[name] = isTime(kind) && value !== null ? Math.round(value as number) : value;
  }
  return read as T;
}

/** Returns the names of an object, also those that it inherits from another one than `Object.prototype`. */
function enumerableNames(given: object): string[] {
  const names: string[] = [];
  for (let object = given; object && object !== Object.prototype; ) {
    names.push(...Object.keys(object));
    object = Object.getPrototypeOf(object);
  }
  return names;
}

/** Rejects a signal, a `Map` or another object without options, which would have no effect. */
function checkEmpty(given: object, call: string): void {
  if (isSignal(given)) throw misplacedSignal("options must be an object (got a signal)", call);
  const tag = readValue(() => Object.prototype.toString.call(given), call, "options");
  if (tag === "[object Object]" || tag === "[object Module]") return;
  const rule = "options must be a plain object such as { ttl: 10_000 }";
  throw new InvalidOption(`${call}: ${rule} (got ${describeType(given)})`);
}

/** Checks the options of a semaphore, of which the limit is required. */
export function checkSemaphore(given: SemaphoreOptions): SemaphoreOptions {
  const options = checkOptions(given, SEMAPHORE, "semaphore()");
  if (options.limit !== undefined) return options;
  throw new InvalidOption("semaphore(): limit is missing (number of permits). Pass { limit: 5 }");
}

/** Checks the options of a run that happens once, of which the time is required. */
export function checkOnce(given: OnceOptions): OnceOptions {
  const options = checkOptions(given, ONCE, "once()");
  if (options.remember !== undefined) return options;
  throw new InvalidOption("once(): remember is missing, in ms. Pass { remember: 86_400_000 }");
}

/** Checks the options of a candidate. */
export function checkLeader<Fencing extends boolean>(
  given: LeaderOptions<Fencing> | undefined,
): CandidateOptions<Fencing> {
  return { ...checkOptions(given ?? {}, LEADER, "leader()"), leads: true };
}

/** Checks the options of a side of a read/write lock. */
export function checkSide(given: LockOptions | undefined, shared: boolean): SideOptions {
  const call = shared ? "read()" : "write()";
  return { ...checkOptions(given, shared ? READER : LOCK, call), shared };
}

/** Options as `toJSON` shows them. */
export type ShownOptions = Record<string, number | boolean | string | null>;

/** The text options that may be shown. Text in any other option could be a secret. */
const SHOWN_TEXTS = ["keyPrefix", "tlsServerName", "clientName", "label"];

/**
 * Lists the options that may be shown. These are numbers, booleans, some texts, and the sizes of certificates and keys.
 */
export function shownOptions(options: object, rules: Rules): ShownOptions {
  const shown: ShownOptions = {};
  for (const [name, value] of Object.entries(options)) {
    const kind = rules[name];
    if (isTime(kind) || kind === "count" || kind === "boolean") shown[name] = value;
    else if (kind === "pem") shown[name] = isUint8Array(value) ? `${value.length} bytes` : "a path";
    else if (SHOWN_TEXTS.includes(name)) shown[name] = value;
  }
  return shown;
}

/** The error for a signal in the wrong place, where it would have no effect. */
function misplacedSignal(what: string, call: string): InvalidOption {
  const action = "Pass a signal as { signal } to acquire, tryAcquire, using or withLock";
  return new InvalidOption(`${call}: ${what}. ${action}`);
}

/** Throws if a call that accepts no signal received one, because it would have no effect. */
export function rejectSignal(given: unknown, call: string): void {
  if (typeof given !== "object" || given === null) return;
  const inside = readValue(() => isSignal(given) || Reflect.has(given, "signal"), call, "options");
  if (inside) throw misplacedSignal("this call does not accept a signal", call);
}

function unknownOption(name: string, rules: Rules, call: string): InvalidOption {
  if (name === "signal") return misplacedSignal("this call does not accept a signal", call);
  const instead = insteadOf(name, Object.keys(rules));
  return new InvalidOption(`${call}: unknown option ${shown(name) || '""'}. ${instead}`);
}

function validOptions(rules: Rules): string {
  return `Valid options: ${Object.keys(rules).join(", ")}`;
}

function checkValue(name: string, value: unknown, kind: Kind, call: string): void {
  // Text in place of a certificate or a key may be the key itself.
  const seen = kind === "pem" && typeof value === "string" ? "a string" : formatValue(value);
  const fail = (rule: string) =>
    new InvalidOption(`${call}: ${name} must be ${rule} (got ${seen})`);
  if (kind === "milliseconds or null" && value === null) return;
  if (isTime(kind)) {
    // Numbers below 1, such as 0.5, are probably seconds.
    const rounded = typeof value === "number" && (value === 0 || Math.abs(value) >= 1);
    const other = kind === "milliseconds" ? "" : ", or null";
    if (!rounded) throw fail(`a number of milliseconds, 0 or at least 1${other}`);
  } else if (kind === "count") {
    if (!Number.isInteger(value)) throw fail("a whole number");
  } else if (kind === "signal") {
    if (!readValue(() => isSignal(value), call, name)) throw fail("an AbortSignal");
  } else if (kind === "function") {
    // The value is not shown, because it may be the secret itself.
    if (typeof value === kind) return;
    throw new InvalidOption(`${call}: ${name} must be a function (got ${describeType(value)})`);
  } else if (kind === "address map") {
    if (typeof value === "function") return;
    if (readValue(() => addressEntries(value), call, name) !== undefined) return;
    const rule = `an object such as { "10.0.0.1:6379": "127.0.0.1:7001" }, or a function`;
    const got = readValue(() => describeAddressMap(value), call, name);
    throw new InvalidOption(`${call}: ${name} must be ${rule} (got ${got})`);
  } else if (kind === "pem" && isUint8Array(value)) {
    return;
  } else if (kind === "label" && typeof value !== "string") {
    if (typeof value !== "boolean") throw fail("a string, true or false");
  } else if (typeof value !== (kind === "pem" || kind === "label" ? "string" : kind)) {
    throw fail(kind === "pem" ? "the path of a PEM file, or its bytes" : `a ${kind}`);
  } else if (typeof value === "string" && LONE_SURROGATE.test(value)) {
    throw fail("valid Unicode, without a lone surrogate");
  }
}

/** Converts the options of a client with these nodes for the native part. Also returns what must stay alive for them. */
export function nativeOptions(
  options: RedlockOptions,
  urls: readonly string[],
): [object, CallbacksHandle | undefined] {
  const { credentials, addressMap: map, ...rest } = options;
  const { tlsCa, tlsVerify } = rest;
  const trust = tlsCa === undefined && tlsVerify !== false ? defaultTrust(...urls) : undefined;
  const addressMap = typeof map === "function" ? map : undefined;
  const entries = addressMap === undefined ? addressEntries(map) : undefined;
  const args = { ...rest, trust };
  if (credentials === undefined && addressMap === undefined) {
    return [{ ...args, addressMap: entries }, undefined];
  }
  const handle = new CallbacksHandle({ credentials, addressMap });
  const { number } = handle;
  const functions = {
    credentials: credentials === undefined ? undefined : number,
    addressMap: addressMap === undefined ? entries : number,
  };
  return [{ ...args, ...functions }, handle];
}
