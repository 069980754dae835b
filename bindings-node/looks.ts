/** What an object of ours looks like where a program prints it: facts, and no secret. */

import type { inspect } from "node:util";

/** As `node:util` calls the method that it asks. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

type Options = Parameters<typeof inspect>[1] & object;

/** Objects of this class are printed as what `toJSON` gives, under this name. */
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
      return `${name} ${text(this.toJSON(), nested)}`;
    } catch {
      // The prototype itself, or a proxy: to print a thing must not throw.
      return `[${name}]`;
    }
  };
  Object.defineProperty(kind.prototype, INSPECT, { value, configurable: true, writable: true });
  // Whatever the bundler calls it.
  Object.defineProperty(kind, "name", { value: name, configurable: true });
}

/**
 * The value of a property that makes `structuredClone`, `postMessage` and the like refuse the object, with this text. They
 * would copy an empty object. Node 20 has no other way to refuse.
 */
export function uncloneable(kind: string, instead: string): symbol {
  return Symbol(`${kind} belongs to its thread: ${instead}`);
}
