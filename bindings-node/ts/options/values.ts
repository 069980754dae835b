/** Checks JavaScript values and describes them in error messages without their content. */

import { InvalidOption } from "../errors/errors.js";
import { shown } from "../native.js";

/** The name of the `nodes` argument in messages. */
export const NODES = "nodes";
/** The message for a call that node-redlock has. */
export const NODE_REDLOCK_ACQUIRE =
  "redlock.acquire(resources, duration) is an API of node-redlock. Use redlock.lock(names, { ttl }).acquire()";

/** Reads a value. An error of a getter or a Proxy becomes the cause of an `InvalidOption`. */
export function readValue<T>(read: () => T, call: string, what: string): T {
  try {
    return read();
  } catch (cause) {
    throw new InvalidOption(`${call}: cannot read ${what} (see the cause of this error)`, {
      cause,
    });
  }
}

/** Even this check throws for a revoked Proxy. */
export function isList(value: unknown, call: string): value is unknown[] {
  return readValue(() => Array.isArray(value), call, "the argument");
}

/** Recognizes a signal by its properties, because test runners have a separate AbortSignal class. */
export function isSignal(value: unknown): value is AbortSignal {
  if (typeof value !== "object" || value === null) return false;
  const { aborted, addEventListener, removeEventListener } = value as Partial<AbortSignal>;
  const methods = [addEventListener, removeEventListener];
  return typeof aborted === "boolean" && methods.every((method) => typeof method === "function");
}

export function formatValue(value: unknown): string {
  if (["object", "function"].includes(typeof value)) return describeType(value);
  if (typeof value === "bigint") return `${value}n, a BigInt`;
  return typeof value === "string" ? shown(JSON.stringify(value)) : String(value);
}

/** Describes the type of a value without its content. */
export function describeType(value: unknown): string {
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value;
  try {
    return `an object of class ${shown(value.constructor?.name ?? "none")}`;
  } catch {
    return "an object that cannot be read";
  }
}

/** UTF-8 cannot encode a lone surrogate, which would change the name. */
export const LONE_SURROGATE = /\p{Surrogate}/u;

/** Returns one or several names as a new list. Reads each name once. */
export function nameList(names: unknown, what: string, call: string): string[] {
  // Most locks have one name. A growing list would reserve memory for 16 more.
  if (!isList(names, call)) return [checkName(names, what, call)];
  const list: string[] = [];
  for (let at = 0; at < readValue(() => names.length, call, what); at += 1) {
    list.push(
      checkName(
        readValue(() => names[at], call, what),
        what,
        call,
      ),
    );
  }
  return list;
}

function checkName(name: unknown, what: string, call: string): string {
  if (typeof name === "string" && !LONE_SURROGATE.test(name)) return name;
  if (what === NODES && isObject(name)) {
    const href = readValue(() => hrefOf(name), call, what);
    if (href !== undefined) return href;
  }
  const rule =
    what === NODES
      ? "nodes must be a URL such as redis://127.0.0.1:6379, or an array of URLs"
      : `${what} must be a string or an array of strings`;
  const isClient = what === NODES && isObject(name);
  const action = isClient ? ". For ioredis and node-redis clients, use Redlock.fromClient()" : "";
  throw new InvalidOption(`${call}: ${rule} (got ${invalidText(name)})${action}`);
}

/** Returns the text of a `URL` object. Recognizes it by its tag, because test runners have a separate URL class. */
function hrefOf(value: object): string | undefined {
  if (Object.prototype.toString.call(value) !== "[object URL]") return undefined;
  const { href } = value as Partial<URL>;
  return typeof href === "string" ? href : undefined;
}

/** Checks the token of a lease. */
export function checkToken(token: unknown): string {
  if (typeof token === "string" && !LONE_SURROGATE.test(token)) return token;
  throw new InvalidOption(`attach(): the token must be a string (got ${invalidText(token)})`);
}

/** Describes a value that is not text, or that UTF-8 cannot encode. */
function invalidText(value: unknown): string {
  return typeof value === "string" ? "a string with a lone surrogate" : describeType(value);
}

/** Checks a callback. */
export function checkCallback<T>(given: T, call: string): T {
  if (typeof given === "function") return given;
  throw new InvalidOption(`${call}: the callback must be a function (got ${formatValue(given)})`);
}

/** Returns whether the value can be searched for private names. */
export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** The error for `new` with a class whose objects a call returns. */
export function noConstructor(kind: string, call: string): InvalidOption {
  return new InvalidOption(`${kind} has no public constructor. Use ${call}`);
}

/** The error for a method that was called on an object of another class. */
export function wrongReceiver(kind: string, given: unknown): InvalidOption {
  const text = `a method of ${kind} was called on ${describeType(given)} or on a Proxy`;
  const action = "Call it on the object, as in lock.acquire(), not as const { acquire } = lock";
  return new InvalidOption(`${text}. ${action}`);
}
