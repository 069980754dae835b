/** Where a client connects to servers that announce other addresses. */

import { describeType, formatValue, LONE_SURROGATE } from "./values.js";

/** A host, by name or address, and a port. */
export interface ServerAddress {
  host: string;
  port: number;
}

/** A function, async or not, that gets an announced host and port and returns the address to connect to. */
export type AddressFunction = (
  host: string,
  port: number,
) => ServerAddress | PromiseLike<ServerAddress>;

/**
 * Addresses to connect to, by the addresses that servers announce, each as `host:port`. Or a function that returns the
 * address.
 */
export type AddressMap = Readonly<Record<string, string>> | AddressFunction;

/** The result for the native part: the reason for a failure, or a host and a port. */
export type AddressResult = [failure: string | undefined, host?: string, port?: number];

/** Converts what the function returned. The native part checks the host. */
export function readAddress(given: unknown): AddressResult {
  const rule = "must return { host, port }, a string and a number from 1 to 65535";
  if (typeof given !== "object" || given === null) {
    return [`${rule} (got a value of type ${given === null ? "null" : typeof given})`];
  }
  const { host, port } = given as Partial<ServerAddress>;
  if (typeof host !== "string" || LONE_SURROGATE.test(host)) {
    return [`${rule} (got a host of type ${typeof host})`];
  }
  const valid = Number.isInteger(port) && (port as number) >= 1 && (port as number) <= 65_535;
  if (valid) return [undefined, host, port as number];
  return [`${rule} (got the port ${typeof port === "number" ? port : describeType(port)})`];
}

/** Returns the pairs of an object. Undefined if it is another value. */
export function addressEntries(given: unknown): [string, string][] | undefined {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return undefined;
  if (given instanceof Map) return undefined;
  const entries = Object.entries(given);
  return entries.every(([, to]) => typeof to === "string") ? entries : undefined;
}

/** Describes a value that is not a map, for an error. */
export function describeAddressMap(given: unknown): string {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return formatValue(given);
  const wrong = Object.entries(given).find(([, to]) => typeof to !== "string");
  return wrong === undefined ? describeType(given) : `${describeType(wrong[1])} as a value`;
}

/** Converts the `natMap` of ioredis or the `nodeAddressMap` of node-redis: an object, or a function of `host:port`. */
export function foreignAddressMap(theirs: unknown): AddressFunction {
  return async (host, port) => {
    // Neither package writes brackets around an IPv6 address.
    const key = `${host}:${port}`;
    const found: unknown =
      typeof theirs === "function" ? await theirs(key) : (theirs as Record<string, unknown>)[key];
    // Both keep the address of a server that is not in the map.
    return (found ?? { host, port }) as ServerAddress;
  };
}
