/** Arguments as JavaScript gives them: names and types are checked here, values by core. */

import { InvalidOption } from "./errors.js";

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
  /** For `rediss://`: PEM file of the certificates to trust instead of the system's. */
  tlsCa?: string;
  /** PEM file of the client's certificate, where the servers ask for one; needs `tlsKey`. */
  tlsCert?: string;
  /** PEM file of the private key of `tlsCert`. */
  tlsKey?: string;
  /** The name that the servers' certificates must carry (and SNI asks for) instead of the URL's host. */
  tlsServerName?: string;
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

type Kind = "milliseconds" | "boolean" | "string" | "signal";
type Rules = Readonly<Record<string, Kind>>;

export const CLIENT: Rules = {
  keyPrefix: "string",
  nodeTimeout: "milliseconds",
  restartGuard: "milliseconds",
  tlsCa: "string",
  tlsCert: "string",
  tlsKey: "string",
  tlsServerName: "string",
};
export const CONFIGURE: Rules = { ...CLIENT, replace: "boolean" };
export const LOCK: Rules = {
  ttl: "milliseconds",
  wait: "milliseconds",
  renew: "boolean",
  maxHold: "milliseconds",
  nodeTimeout: "milliseconds",
  fencing: "boolean",
};
export const ACQUIRE: Rules = { signal: "signal", wait: "milliseconds" };

/** What other libraries call things, and what to write here. */
const ELSEWHERE = new Map([
  ["duration", "ttl, how long the lease lives, in milliseconds"],
  ["expire", "ttl, how long the lease lives, in milliseconds"],
  ["timeout", "wait (how long to wait for the lock) or ttl (how long the lease lives)"],
  ["retryCount", "wait, how long to go on trying, in milliseconds; 0 tries once"],
  ["retryDelay", "wait, how long to go on trying; the pauses are chosen here"],
  ["retryJitter", "wait, how long to go on trying; the pauses are chosen here"],
  ["driftFactor", "nothing: clock drift is always accounted for"],
  ["automaticExtensionThreshold", "renew (on by itself: at a third of the ttl)"],
]);

/** The options, once every name is known and every value has its type. */
export function checked<T extends object>(given: T | undefined, rules: Rules, call: string): T {
  if (given === undefined) return {} as T;
  if (typeof given === "number") {
    const text = `${call}: ${given} stands where options belong. Write { ttl: ${given} }; ttl is in milliseconds`;
    throw new InvalidOption(text);
  }
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new InvalidOption(`${call}: options must be an object, such as { ttl: 10_000 }`);
  }
  for (const [name, value] of Object.entries(given)) {
    const kind = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (kind === undefined) throw unknownOption(name, rules, call);
    if (value !== undefined) checkValue(name, value, kind, call);
  }
  return given;
}

function unknownOption(name: string, rules: Rules, call: string): InvalidOption {
  const instead = ELSEWHERE.get(name);
  if (instead !== undefined) {
    return new InvalidOption(`${call}: ${name} is another library's option. Use ${instead}`);
  }
  const known = Object.keys(rules).join(", ");
  return new InvalidOption(`${call}: there is no option ${name}. There are: ${known}`);
}

function checkValue(name: string, value: unknown, kind: Kind, call: string): void {
  const fail = (rule: string) =>
    new InvalidOption(`${call}: ${name} is ${printed(value)}: it must be ${rule}`);
  if (kind === "milliseconds") {
    if (!Number.isInteger(value) && value !== Number.POSITIVE_INFINITY) {
      throw fail(`a whole number of milliseconds; ${name} is in milliseconds`);
    }
  } else if (kind === "signal") {
    if (!isSignal(value)) throw fail("an AbortSignal");
  } else if (typeof value !== kind) {
    throw fail(`a ${kind}`);
  }
}

/** By its shape: test runners have an AbortSignal class of their own. */
function isSignal(value: unknown): value is AbortSignal {
  if (typeof value !== "object" || value === null) return false;
  return "aborted" in value && "addEventListener" in value;
}

function printed(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/** One name or several, as a list. */
export function nameList(names: unknown, what: string, call: string): string[] {
  const list = Array.isArray(names) ? names : [names];
  const wrong = list.find((name) => typeof name !== "string");
  if (list.some((name) => typeof name !== "string")) {
    const got = wrong === null ? "null" : typeof wrong;
    throw new InvalidOption(`${call}: ${what} must be a string or a list of strings, not ${got}`);
  }
  return list;
}
