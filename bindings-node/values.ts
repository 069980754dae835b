/** Values as JavaScript gives them: what they are, in words that show nothing of what is in them. */

import { InvalidOption } from "./errors.js";
import { shown } from "./native.js";

/** What a list of nodes is called in messages. */
export const NODES = "nodes (URLs such as redis://host:6379)";
/** What node-redlock's call is told. */
export const NODE_REDLOCK_ACQUIRE =
  "redlock.acquire(resources, duration) is node-redlock's. Write redlock.lock(names, { ttl }).acquire()";

/** What a getter or a proxy throws is the cause of an `InvalidOption`. */
export function attemptTo<T>(read: () => T, call: string, what: string): T {
  try {
    return read();
  } catch (cause) {
    throw new InvalidOption(`${call}: ${what} cannot be read: see the cause`, { cause });
  }
}

/** A proxy that was revoked throws even here. */
export function isList(value: unknown, call: string): value is unknown[] {
  return attemptTo(() => Array.isArray(value), call, "the argument");
}

/** By its shape: test runners have an AbortSignal class of their own. */
export function isSignal(value: unknown): value is AbortSignal {
  if (typeof value !== "object" || value === null) return false;
  const { aborted, addEventListener, removeEventListener } = value as Partial<AbortSignal>;
  const listens = [addEventListener, removeEventListener];
  return typeof aborted === "boolean" && listens.every((method) => typeof method === "function");
}

export function printed(value: unknown): string {
  if (["object", "function"].includes(typeof value)) return kindOf(value);
  if (typeof value === "bigint") return `${value}n, a BigInt`;
  return typeof value === "string" ? shown(JSON.stringify(value)) : String(value);
}

/** What it is, without what is in it. */
export function kindOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value;
  try {
    return `an object of class ${shown(value.constructor?.name ?? "none")}`;
  } catch {
    return "an object that cannot be read";
  }
}

/** Text that UTF-8 cannot write would become another name on the way. */
export const LONE_SURROGATE = /\p{Surrogate}/u;

/** One name or several, as a list of its own: each read once. */
export function nameList(names: unknown, what: string, call: string): string[] {
  // Most locks have one name: in a list that grew there would be room for 16 more.
  if (!isList(names, call)) return [nameText(names, what, call)];
  const list: string[] = [];
  for (let at = 0; at < attemptTo(() => names.length, call, what); at += 1) {
    list.push(
      nameText(
        attemptTo(() => names[at], call, what),
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
  const theirs = what === NODES && isObject(name);
  const way = theirs ? ". Redlock.fromClient() takes clients of ioredis and node-redis" : "";
  const rule = `${what} must be a string or a list of strings`;
  throw new InvalidOption(`${call}: ${rule}, not ${wrong}${way}`);
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

/** Whether private names can be looked for in it. */
export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** For a method that was called on something else than an object of its class. */
export function notOurs(kind: string, given: unknown): InvalidOption {
  const way = "Call it on the object itself: lock.acquire(), not const { acquire } = lock";
  const text = `a method of ${kind} was called on ${kindOf(given)}, or on a Proxy. ${way}`;
  return new InvalidOption(text);
}
