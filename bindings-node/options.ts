/** Options as JavaScript gives them: names and types are checked here, values by core. */

import { isUint8Array } from "node:util/types";
import { type CredentialsSource, Kept } from "./credentials.js";
import { InvalidOption } from "./errors.js";
import { clientOptions, insteadOf, lockOptions, type OptionRow, shown } from "./native.js";
import { attemptTo, isList, isSignal, kindOf, LONE_SURROGATE, printed } from "./values.js";

/** Options of a client. Times are in milliseconds, rounded to whole ones. */
export interface RedlockOptions {
  /** Goes before every name. Default `lock:`. An empty one shares keys with other libraries. */
  keyPrefix?: string | undefined;
  /** How long to wait for one node's answer, in ms. Default min(1 s, ttl / 5). */
  nodeTimeout?: number | undefined;
  /** How long an attempt to connect may take: name lookup, TCP, TLS and login. Default 5 s. */
  connectTimeout?: number | undefined;
  /**
   * In ms. Over several nodes, one younger than this takes no first vote, and no ttl may exceed it. The same on every
   * client; 0: no guard. Default 60 s.
   */
  restartGuard?: number | undefined;
  /** So many replicas of a node must have a grant or an extension before it counts (`WAIT`). Default 0. */
  minReplicas?: number | undefined;
  /**
   * A grant or an extension must be on disk before it counts (`WAITAOF`), which then may take a second. Default false.
   */
  fsync?: boolean | undefined;
  /**
   * Whether locks are asked for by scripts (`EVALSHA`). Default: but for releases where the server has `DELIFEQ` (Valkey
   * 9), which costs it less. False needs `DELIFEQ`, or `DELEX` (Redis 8.4), one name per lock and no fencing.
   */
  scripts?: boolean | undefined;
  /** For `rediss://`: the certificates to trust instead of the system's: a PEM file's path, or its bytes. */
  tlsCa?: string | Uint8Array | undefined;
  /** The client's certificate, where the servers ask for one: path or bytes, as `tlsCa`; needs `tlsKey`. */
  tlsCert?: string | Uint8Array | undefined;
  /** The private key of `tlsCert`: path or bytes. */
  tlsKey?: string | Uint8Array | undefined;
  /** The name that the servers' certificates must carry (and SNI asks for) instead of the URL's host. */
  tlsServerName?: string | undefined;
  /**
   * Whether the servers must prove who they are. Default true. With false whoever answers is believed, and hears the
   * password: only for a network that nobody else is in.
   */
  tlsVerify?: boolean | undefined;
  /** What the connections are called in the server's `CLIENT LIST` and log. Default `redlock`. */
  clientName?: string | undefined;
  /**
   * Who says as whom to log in: a function, or an async one, that gives a password or `{ username, password, lifetime }`;
   * asked at each connect and, on the open connection, before the `lifetime` (ms) ends.
   */
  credentials?: CredentialsSource | undefined;
}

/** Options of a lock. Times are in milliseconds, rounded to whole ones. */
export interface LockOptions<Fencing extends boolean = boolean> {
  /** How long the lease lives without renewal, in ms. Default 10,000, at least 100. */
  ttl?: number | undefined;
  /** How long an acquire may wait for another holder, in ms; 0: one attempt. Default and `Infinity`: without a limit. */
  wait?: number | undefined;
  /** Extend at a third of the ttl until released. Default true. */
  renew?: boolean | undefined;
  /** Upper bound on the whole hold, in ms, at which the lease is lost. Default none. */
  maxHold?: number | undefined;
  /** How long the key stays after the acquire, in ms, even if the lease is released before. Default 0, at most the ttl. */
  minHold?: number | undefined;
  /** How long to wait for one node's answer, in ms. Default the client's, else min(1 s, ttl / 5). */
  nodeTimeout?: number | undefined;
  /** Ask for a fencing token, `lease.fencingToken`. Default false. */
  fencing?: Fencing | undefined;
}

/** Options of one round. */
export interface TryAcquireOptions {
  /** Aborting it ends the round and leaves no key behind. */
  signal?: AbortSignal | undefined;
}

/** Options of one acquire. */
export interface AcquireOptions extends TryAcquireOptions {
  /** Overrides the lock's `wait`, in ms. */
  wait?: number | undefined;
}

/** Options of `withLock(names, options, body)` and `client.using`: of a lock, and of its one acquire. */
export interface UsingOptions<Fencing extends boolean = boolean> extends LockOptions<Fencing> {
  /** Aborting it stops the waiting; while the body runs, it aborts `lease.signal` with the same reason. */
  signal?: AbortSignal | undefined;
}

type Kind = OptionRow["kind"] | "signal";
/** The options of a call, each with its kind. */
export type Rules = Readonly<Record<string, Kind>>;

/** By the core's own table. */
function rulesOf(options: OptionRow[]): Rules {
  return Object.fromEntries(options.map(({ name, kind }) => [name, kind]));
}

/** Of `new Redlock()`. */
export const CLIENT = rulesOf(clientOptions());
/** Of `configure()`. */
export const CONFIGURE: Rules = { ...CLIENT, replace: "boolean" };
/** Of `lock()`. */
export const LOCK = rulesOf(lockOptions());
/** Of `acquire()`. */
export const ACQUIRE: Rules = { signal: "signal", wait: "milliseconds" };
/** Of `tryAcquire()`. */
export const TRY: Rules = { signal: "signal" };
/** Of `withLock()` and `client.using()`. */
export const USING: Rules = { ...LOCK, signal: "signal" };
/** Of `shutdown()`. */
export const SHUTDOWN: Rules = { timeout: "milliseconds" };

/** Of whoever gives none: one for all. */
const NONE = Object.freeze({});

/**
 * The options, once every name is known and every value has its type: a copy, each value read once, as a getter may give
 * another one the next time.
 */
export function checked<T extends object>(given: T | undefined, rules: Rules, call: string): T {
  if (given === undefined) return NONE as T;
  if (typeof given === "number") {
    const instead = Object.hasOwn(rules, "ttl") ? "ttl" : "wait";
    const way = Object.hasOwn(rules, instead)
      ? `Write { ${instead}: ${given} }; ${instead} is in milliseconds`
      : `There are: ${Object.keys(rules).join(", ")}`;
    throw new InvalidOption(`${call}: ${given} stands where options belong. ${way}`);
  }
  if (typeof given !== "object" || given === null || isList(given, call)) {
    const known = Object.keys(rules).join(", ");
    throw new InvalidOption(
      `${call}: options must be an object, not ${kindOf(given)}. There are: ${known}`,
    );
  }
  const names = attemptTo(() => Object.keys(given), call, "options");
  if (names.length === 0) checkEmpty(given, call);
  for (const name of names) {
    if (!Object.hasOwn(rules, name)) throw unknownOption(name, rules, call);
  }
  const read: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(rules)) {
    const value = attemptTo(() => Reflect.get(given, name), call, name);
    if (value === undefined) continue;
    checkValue(name, value, kind, call);
    read[name] = kind === "milliseconds" ? Math.round(value as number) : value;
  }
  return read as T;
}

/** A signal, or a `Map` and the like, would have no effect. */
function checkEmpty(given: object, call: string): void {
  if (isSignal(given)) throw strayed("a signal stands where options belong", call);
  const tag = attemptTo(() => Object.prototype.toString.call(given), call, "options");
  if (tag === "[object Object]" || tag === "[object Module]") return;
  const way = "Its properties are not read as options: give an object, { ttl: 10_000 }";
  throw new InvalidOption(`${call}: options are ${kindOf(given)}. ${way}`);
}

/** Options as `toJSON` shows them. */
export type ShownOptions = Record<string, number | boolean | string>;

/** The text options that may be shown. Text in any other option could be a secret. */
const SHOWN_TEXTS = ["keyPrefix", "tlsServerName", "clientName"];

/** Lists the options that may be shown: numbers, switches, some texts, and the sizes of certificates and keys. */
export function shownOptions(options: object, rules: Rules): ShownOptions {
  const shown: ShownOptions = {};
  for (const [name, value] of Object.entries(options)) {
    const kind = rules[name];
    if (kind === "milliseconds" || kind === "count" || kind === "boolean") shown[name] = value;
    else if (kind === "pem") shown[name] = isUint8Array(value) ? `${value.length} bytes` : "a path";
    else if (SHOWN_TEXTS.includes(name)) shown[name] = value;
  }
  return shown;
}

/** A signal that would not be listened to. */
function strayed(what: string, call: string): InvalidOption {
  const text =
    "A signal is for one acquire, tryAcquire, using or withLock: give it there as { signal }";
  return new InvalidOption(`${call}: ${what}. ${text}`);
}

/** Where nothing is taken: a signal that is given all the same would never be heard. */
export function noSignal(given: unknown, call: string): void {
  if (typeof given !== "object" || given === null) return;
  const inside = attemptTo(() => isSignal(given) || Reflect.has(given, "signal"), call, "options");
  if (inside) throw strayed("it takes no signal", call);
}

function unknownOption(name: string, rules: Rules, call: string): InvalidOption {
  if (name === "signal") return strayed("it takes no signal", call);
  const instead = insteadOf(name);
  if (instead !== null) {
    return new InvalidOption(`${call}: ${name} is another library's option. ${instead}`);
  }
  const known = Object.keys(rules).join(", ");
  return new InvalidOption(`${call}: there is no option ${shown(name)}. There are: ${known}`);
}

function checkValue(name: string, value: unknown, kind: Kind, call: string): void {
  // Text in place of a certificate or a key may be the key itself.
  const seen = kind === "pem" && typeof value === "string" ? "a string" : printed(value);
  const fail = (rule: string) =>
    new InvalidOption(`${call}: ${name} is ${seen}: it must be ${rule}`);
  if (kind === "milliseconds") {
    // Seconds look like 0.5.
    const rounded = typeof value === "number" && (value === 0 || Math.abs(value) >= 1);
    if (!rounded) throw fail(`a number, 0 or at least 1; ${name} is in milliseconds`);
  } else if (kind === "count") {
    if (!Number.isInteger(value)) throw fail("a whole number");
  } else if (kind === "signal") {
    if (!attemptTo(() => isSignal(value), call, name)) throw fail("an AbortSignal");
  } else if (kind === "function") {
    // Not shown: it may be the secret itself.
    if (typeof value !== kind) throw new InvalidOption(`${call}: ${name} is no function`);
  } else if (kind === "pem" && isUint8Array(value)) {
    return;
  } else if (typeof value !== (kind === "pem" ? "string" : kind)) {
    throw fail(kind === "pem" ? "a string, the path of a PEM file, or its bytes" : `a ${kind}`);
  } else if (typeof value === "string" && LONE_SURROGATE.test(value)) {
    throw fail("text without a lone surrogate");
  }
}

/** A client's options as the native part reads them, and what has to be kept for them. */
export function nativeOptions(options: RedlockOptions): [object, Kept | undefined] {
  const { credentials, ...rest } = options;
  if (credentials === undefined) return [rest, undefined];
  const kept = new Kept(credentials);
  return [{ ...rest, credentials: kept.number }, kept];
}
