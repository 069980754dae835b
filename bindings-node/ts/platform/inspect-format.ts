/** Prints the objects of this package without secrets. */

import type { inspect } from "node:util";

/** The method that `node:util` calls to print an object. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/** A sequence of hex digits that may be a token or contain one. Its first 8 digits are printed, as in messages of core. */
const TOKEN = /([\da-f]{8})[\da-f]{24,}/gi;

/** Characters that break a line or change the direction of writing. `inspect` escapes only control characters of ASCII. */
const CONTROLS = /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

const escaped = (character: string): string =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

type Options = Parameters<typeof inspect>[1] & object;

/** Prints objects of this class as their `toJSON` result, with this name. */
export function printable(kind: { prototype: { toJSON(): object } }, name: string): void {
  const value = function print(
    this: { toJSON(): object },
    depth: number,
    options: Options,
    text: typeof inspect,
  ): string {
    if (depth < 0) return `[${name}]`;
    const nested = { ...options, depth: options.depth == null ? null : depth };
    try {
      const printed = text(this.toJSON(), nested).replace(TOKEN, "$1…");
      return `${name} ${printed.replace(CONTROLS, escaped)}`;
    } catch {
      // Printing must not throw for the prototype or a Proxy.
      return `[${name}]`;
    }
  };
  Object.defineProperty(kind.prototype, INSPECT, { value, configurable: true, writable: true });
  // The bundler may have renamed the class.
  Object.defineProperty(kind, "name", { value: name, configurable: true });
}

/**
 * Returns a property value that makes `structuredClone` and `postMessage` reject the object. The error contains this
 * text.
 *
 * They would otherwise copy an empty object. Node.js 20 has no other way to reject one.
 */
export function uncloneable(kind: string, instead: string): symbol {
  return Symbol(`${kind} cannot be copied to another thread. ${instead}`);
}
