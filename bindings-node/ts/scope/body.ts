/** The function that runs while a lock is held, and the result of one that runs once. */

import { InvalidOption } from "../errors/errors.js";
import type { Lease } from "../lease/lease.js";
import { checkOptions, type Rules } from "../options/options.js";

/** The function that runs while the lock is held. It receives the lease. */
export type Body<T, Fencing extends boolean = boolean> = (
  lease: Lease<Fencing>,
) => T | PromiseLike<T>;

/** Whether the body of `once.run` ran, and its result. */
export type OnceResult<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly value: undefined };

/**
 * Checks the last arguments of `using()`, `withLock()` and `run()`, which are options and the body. The options may be
 * omitted.
 * @internal
 */
export function bodyOf<T, Fencing extends boolean, Options extends object>(
  options: Options | Body<T, Fencing> | undefined,
  body: Body<T, Fencing> | undefined,
  rules: Rules,
  call: string,
): [Options, Body<T, Fencing>] {
  if (typeof options === "function") {
    if (body === undefined) return [checkOptions<Options>(undefined, rules, call), options];
    throw new InvalidOption(`${call}: the options must come before the function to run`);
  }
  const found = checkOptions(options, rules, call);
  if (typeof body === "function") return [found, body];
  throw new InvalidOption(`${call}: the last argument must be the function to run`);
}
