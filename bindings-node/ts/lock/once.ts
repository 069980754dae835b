/** A function that runs unless it ran with success within a given time. */

import { ACQUIRE, type AcquireOptions } from "../options/options.js";
import { isObject, noConstructor, wrongReceiver } from "../options/values.js";
import { printable, uncloneable } from "../platform/inspect-format.js";
import { type Body, bodyOf, type OnceResult } from "../scope/body.js";
import { Lock } from "./lock.js";

const UNCLONEABLE = uncloneable("a run of once()", "Create a new one there, with its name");

/**
 * A function that runs once in a given time, over all clients. It has no state, so you can share and reuse it.
 *
 * @example
 * ```js
 * const payment = client.once("payment:42", { remember: 86_400_000 });
 * (await payment.run(() => "charged")).value; // "charged"
 * (await payment.run(() => "charged")).ran; // false
 * ```
 */
export class Once {
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #lock: Lock<false>;

  /** @internal */
  constructor(lock: Lock<false>) {
    if (!Lock.isLock(lock)) throw noConstructor("Once", "client.once(name, { remember })");
    this.#lock = lock;
  }

  /** Returns the lock. Throws if a method was called on another object. */
  static #lockOf(once: Once): Lock<false> {
    if (isObject(once) && #lock in once) return once.#lock;
    throw wrongReceiver("Once", once);
  }

  /**
   * The exact Redis key.
   *
   * @example
   * ```js
   * client.once("payment:42", { remember: 60_000 }).key; // "lock:payment:42"
   * ```
   */
  get key(): string {
    return Once.#lockOf(this).key;
  }

  /**
   * Runs `body`, unless it ran before.
   *
   * If `body` fails, nothing is remembered, and the next call runs it. After a process died, it may run again when the
   * `ttl` has ended. A loss of the lease aborts `lease.signal`. If too few nodes confirm the memory, this only causes a
   * warning. The memory then lasts at least for the rest of the TTL.
   * @param options `wait` in ms, default the option of `once()`. `signal`, which ends the wait, and aborts
   * `lease.signal` while `body` runs.
   * @param body The function to run. It receives the lease.
   * @returns `{ ran: true, value }` with the result of `body`, or `{ ran: false, value: undefined }` if it ran before.
   * @throws `LockTimeout` if another caller runs it now, and did not end within `wait`.
   * @throws `LockLost` if the lease was lost before `body` ended. Another run may have begun, also if `body` succeeded.
   * @throws The other errors of `Lock.using`, and the error of `body`.
   *
   * @example
   * ```js
   * const { ran } = await client.once("payment:42", { remember: 86_400_000 }).run(async ({ signal }) => "charged");
   * ran; // true
   * ```
   */
  async run<T>(body: Body<T, false>): Promise<OnceResult<T>>;
  async run<T>(options: AcquireOptions, body: Body<T, false>): Promise<OnceResult<T>>;
  async run<T>(
    first: AcquireOptions | Body<T, false>,
    last?: Body<T, false>,
  ): Promise<OnceResult<T>> {
    const lock = Once.#lockOf(this);
    const [options, body] = bodyOf(first, last, ACQUIRE, "run()");
    return await lock.runOnce(body, options, this.run);
  }

  /**
   * Returns the data that is safe to log. `util.inspect` shows the same.
   *
   * @example
   * ```js
   * JSON.stringify(client.once("payment:42", { remember: 60_000 }).toJSON().names); // '["payment:42"]'
   * ```
   */
  toJSON(): ReturnType<Lock["toJSON"]> {
    // Logging a Proxy of it must not throw.
    if (!(#lock in this)) return {} as never;
    return this.#lock.toJSON();
  }
}

printable(Once, "Once");
