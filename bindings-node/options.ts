/** Arguments as JavaScript gives them: names and types are checked here, values by core. */

import { type CredentialsSource, Kept } from "./credentials.js";
import { InvalidOption } from "./errors.js";
import { clientOptions, insteadOf, lockOptions, type OptionRow, shown } from "./native.js";

/** Options of a client. Times are whole milliseconds. */
export interface RedlockOptions {
  /** Goes before every name. Default `lock:`. An empty one shares keys with other libraries. */
  keyPrefix?: string;
  /** How long to wait for one node's answer. Default min(1 s, ttl / 5). */
  nodeTimeout?: number;
  /**
   * Over several nodes, one younger than this takes no first vote, and no ttl may exceed it. The same on every client;
   * 0: no guard. Default 60 s.
   */
  restartGuard?: number;
  /** So many replicas of a node must have a grant or an extension before it counts (`WAIT`). Default 0. */
  minReplicas?: number;
  /**
   * A grant or an extension must be on disk before it counts (`WAITAOF`), which then may take a second. Default false.
   */
  fsync?: boolean;
  /**
   * Whether locks are asked for by scripts (`EVALSHA`). Default: but for releases where the server has `DELIFEQ` (Valkey
   * 9), which costs it less. False needs `DELIFEQ`, or `DELEX` (Redis 8.4), one name per lock and no fencing.
   */
  scripts?: boolean;
  /** For `rediss://`: PEM file of the certificates to trust instead of the system's. */
  tlsCa?: string;
  /** PEM file of the client's certificate, where the servers ask for one; needs `tlsKey`. */
  tlsCert?: string;
  /** PEM file of the private key of `tlsCert`. */
  tlsKey?: string;
  /** The name that the servers' certificates must carry (and SNI asks for) instead of the URL's host. */
  tlsServerName?: string;
  /**
   * Whether the servers must prove who they are. Default true. With false whoever answers is believed, and hears the
   * password: only for a network that nobody else is in.
   */
  tlsVerify?: boolean;
  /** What the connections are called in the server's `CLIENT LIST` and log. Default `redlock`. */
  clientName?: string;
  /**
   * Who says as whom to log in: a function, or an async one, that gives a password or `{ username, password, lifetime }`;
   * asked at each connect and, on the open connection, before the `lifetime` (ms) ends.
   */
  credentials?: CredentialsSource;
}

/** Options of a lock. Times are whole milliseconds. */
export interface LockOptions {
  /** How long the lease lives without renewal. Default 10 s, at least 100 ms. */
  ttl?: number;
  /** How long an acquire may wait for somebody else; 0: one round. Default, and with `Infinity`: for ever. */
  wait?: number;
  /** Extend at a third of the ttl until released. Default true. */
  renew?: boolean;
  /** Upper bound on the whole hold, at which the lease is lost. Default none. */
  maxHold?: number;
  /** How long to wait for one node's answer. Default the client's, else min(1 s, ttl / 5). */
  nodeTimeout?: number;
  /** Ask for a fencing token, `lease.fencingToken`. Default false. */
  fencing?: boolean;
}

/** Options of one acquire. */
export interface AcquireOptions {
  /** Aborting it stops the waiting and leaves no key behind. */
  signal?: AbortSignal;
  /** Overrides the lock's `wait`, in ms. */
  wait?: number;
}

type Kind = OptionRow["kind"] | "signal";
type Rules = Readonly<Record<string, Kind>>;

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
/** Of `shutdown()`. */
export const SHUTDOWN: Rules = { timeout: "milliseconds" };

/**
 * The options, once every name is known and every value has its type: a copy, each value read once, as a getter may give
 * another one the next time.
 */
export function checked<T extends object>(given: T | undefined, rules: Rules, call: string): T {
  if (given === undefined) return {} as T;
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
  for (const name of attemptTo(() => Object.keys(given), call, "options")) {
    if (!Object.hasOwn(rules, name)) throw unknownOption(name, rules, call);
  }
  const read: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(rules)) {
    const value = attemptTo(() => Reflect.get(given, name), call, name);
    if (value === undefined) continue;
    checkValue(name, value, kind, call);
    read[name] = value;
  }
  return read as T;
}

/** What a getter or a proxy throws is the cause of an `InvalidOption`. */
function attemptTo<T>(read: () => T, call: string, what: string): T {
  try {
    return read();
  } catch (cause) {
    throw new InvalidOption(`${call}: ${what} cannot be read: see the cause`, { cause });
  }
}

/** A proxy that was revoked throws even here. */
function isList(value: unknown, call: string): value is unknown[] {
  return attemptTo(() => Array.isArray(value), call, "the argument");
}

function unknownOption(name: string, rules: Rules, call: string): InvalidOption {
  const instead = insteadOf(name);
  if (instead !== null) {
    return new InvalidOption(`${call}: ${name} is another library's option. ${instead}`);
  }
  const known = Object.keys(rules).join(", ");
  return new InvalidOption(`${call}: there is no option ${shown(name)}. There are: ${known}`);
}

function checkValue(name: string, value: unknown, kind: Kind, call: string): void {
  const fail = (rule: string) =>
    new InvalidOption(`${call}: ${name} is ${printed(value)}: it must be ${rule}`);
  if (kind === "milliseconds") {
    if (!Number.isInteger(value) && value !== Number.POSITIVE_INFINITY) {
      throw fail(`a whole number of milliseconds; ${name} is in milliseconds`);
    }
  } else if (kind === "count") {
    if (!Number.isInteger(value)) throw fail("a whole number");
  } else if (kind === "signal") {
    if (!attemptTo(() => isSignal(value), call, name)) throw fail("an AbortSignal");
  } else if (kind === "function") {
    // Not shown: it may be the secret itself.
    if (typeof value !== kind) throw new InvalidOption(`${call}: ${name} is no function`);
  } else if (typeof value !== kind) {
    throw fail(`a ${kind}`);
  } else if (typeof value === "string" && LONE_SURROGATE.test(value)) {
    throw fail("text without a lone surrogate");
  }
}

/** By its shape: test runners have an AbortSignal class of their own. */
function isSignal(value: unknown): value is AbortSignal {
  if (typeof value !== "object" || value === null) return false;
  const { aborted, addEventListener, removeEventListener } = value as Partial<AbortSignal>;
  const listens = [addEventListener, removeEventListener];
  return typeof aborted === "boolean" && listens.every((method) => typeof method === "function");
}

function printed(value: unknown): string {
  if (["object", "function"].includes(typeof value)) return kindOf(value);
  return typeof value === "string" ? shown(JSON.stringify(value)) : String(value);
}

/** What it is, without what is in it. */
function kindOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value;
  try {
    return `an object of class ${shown(value.constructor?.name ?? "none")}`;
  } catch {
    return "an object that cannot be read";
  }
}

/** Text that UTF-8 cannot write would become another name on the way. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** One name or several, as a list of its own: each read once. */
export function nameList(names: unknown, what: string, call: string): string[] {
  const given = isList(names, call) ? names : [names];
  const list: string[] = [];
  for (let at = 0; at < attemptTo(() => given.length, call, what); at += 1) {
    list.push(
      nameText(
        attemptTo(() => given[at], call, what),
        what,
        call,
      ),
    );
  }
  return list;
}

function nameText(name: unknown, what: string, call: string): string {
  if (typeof name === "string" && !LONE_SURROGATE.test(name)) return name;
  const wrong = typeof name === "string" ? "one with a lone surrogate" : kindOf(name);
  throw new InvalidOption(`${call}: ${what} must be a string or a list of strings, not ${wrong}`);
}

/** A lease's token. */
export function tokenText(token: unknown): string {
  if (typeof token === "string" && !LONE_SURROGATE.test(token)) return token;
  const wrong = typeof token === "string" ? "one with a lone surrogate" : kindOf(token);
  throw new InvalidOption(`attach(): the token must be a string, not ${wrong}`);
}

/** A function that is called back. */
export function callback<T>(given: T, call: string): T {
  if (typeof given === "function") return given;
  throw new InvalidOption(`${call}: ${printed(given)} stands where a function belongs`);
}

/** A client's options as the native part reads them, and what has to be kept for them. */
export function nativeOptions(options: RedlockOptions): [object, Kept | undefined] {
  const { credentials, ...rest } = options;
  if (credentials === undefined) return [rest, undefined];
  const kept = new Kept(credentials);
  return [{ ...rest, credentials: kept.number }, kept];
}
