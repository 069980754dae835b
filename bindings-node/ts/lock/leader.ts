/** The candidate of an election, which runs a body while it leads. */

import { LockLost } from "../errors/errors.js";
import type { CallSite } from "../lease/call-sites.js";
import type { Lease } from "../lease/lease.js";
import { checkOptions, rejectSignal, TRY, type TryAcquireOptions } from "../options/options.js";
import { isObject, noConstructor, wrongReceiver } from "../options/values.js";
import { printable, uncloneable } from "../platform/inspect-format.js";
import { type Body, bodyOf } from "../scope/body.js";
import { runUnder } from "../scope/scope.js";
import { Lock } from "./lock.js";

const UNCLONEABLE = uncloneable("a candidate of leader()", "Create a new one there, with its name");

/**
 * Whether a term ended by its loss. The loss of another lock is an error of the body, also if it has the same key on
 * other servers. So is a use of the lease after the body released it.
 */
function isLossOf(lease: Lease, returned: boolean, error: unknown): boolean {
  if (!(error instanceof LockLost && error.resource === lease.key)) return false;
  // After the body returned, only the release failed. The lease has then no loss if its keys were missing.
  return returned || lease.isLost;
}

/**
 * A candidate of an election, of which at most one leads at a time, over all clients. You can share and reuse it.
 *
 * @example
 * ```js
 * const leader = client.leader("scheduler", { label: "web-3" });
 * await leader.run(async ({ signal }) => leader.current()); // "web-3"
 * leader.isLeading; // false
 * ```
 */
export class Leader<Fencing extends boolean = boolean> {
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #lock: Lock<Fencing>;
  /** The lease of the last term. A program that keeps only this object still leads, so it is not collected before it. */
  #term: Lease | undefined;

  /** @internal */
  constructor(lock: Lock<Fencing>) {
    if (!Lock.isLock(lock)) throw noConstructor("Leader", "client.leader(name)");
    this.#lock = lock;
  }

  /** Returns the lock. Throws if a method was called on another object. */
  static #lockOf<Fencing extends boolean>(leader: Leader<Fencing>): Lock<Fencing> {
    if (isObject(leader) && #lock in leader) return leader.#lock;
    throw wrongReceiver("Leader", leader);
  }

  /**
   * The exact Redis key.
   *
   * @example
   * ```js
   * client.leader("scheduler").key; // "lock:scheduler"
   * ```
   */
  get key(): string {
    return Leader.#lockOf(this).key;
  }

  /**
   * Whether this candidate leads now, by this process's clock. Does not contact a server.
   *
   * @example
   * ```js
   * client.leader("scheduler").isLeading; // false
   * ```
   */
  get isLeading(): boolean {
    Leader.#lockOf(this);
    return this.#term?.held ?? false;
  }

  /**
   * Campaigns until it leads, runs `body`, and resigns when `body` settles. Settles with the result or the error of
   * `body`.
   *
   * A loss of the lease aborts `lease.signal`. When `body` has settled, its result is dropped, and the next campaign
   * begins, unless `body` failed with another error than the loss or an `AbortError`. A campaign has no time limit and
   * survives outages.
   * @param options `signal`, which ends the campaign, and aborts `lease.signal` while `body` runs.
   * @param body The function to run. It receives the lease of the term.
   * @returns The result of `body`.
   * @throws The error of `body`, and the reason of `signal`.
   * @throws `ClientClosed`, `InvalidOption` or `Unsupported`.
   * @throws `QuorumUnavailable` if the servers refuse the login or the commands. Other outages do not end a campaign.
   *
   * @example
   * ```js
   * const leader = client.leader("scheduler");
   * await leader.run(async ({ signal }) => leader.isLeading && !signal.aborted); // true
   * ```
   */
  async run<T>(body: Body<T, Fencing>): Promise<T>;
  async run<T>(options: TryAcquireOptions, body: Body<T, Fencing>): Promise<T>;
  async run<T>(first: TryAcquireOptions | Body<T, Fencing>, last?: Body<T, Fencing>): Promise<T> {
    const lock = Leader.#lockOf(this);
    const [options, body] = bodyOf(first, last, TRY, "run()");
    const site = lock.siteOf(this.run);
    for (;;) {
      const lease = await this.#campaign(site, options);
      let returned = false;
      const noted = async (given: Lease<Fencing>) => {
        const result = await body(given);
        returned = true;
        return result;
      };
      try {
        return await runUnder(lease, noted, options);
      } catch (error) {
        if (!isLossOf(lease, returned, error)) throw error;
      }
    }
  }

  /**
   * Campaigns until it leads, and returns the lease of one term. Releasing it resigns. This object keeps the lease from
   * being garbage-collected.
   * @param options `signal`, which ends the campaign.
   * @throws The errors of `run`, without a body.
   *
   * @example
   * ```js
   * const term = await client.leader("scheduler", { fencing: true }).campaign(); // or `await using`
   * term.fencingToken > 0; // true
   * await term.release();
   * ```
   */
  async campaign(options?: TryAcquireOptions): Promise<Lease<Fencing>> {
    const site = Leader.#lockOf(this).siteOf(this.campaign);
    return await this.#campaign(site, checkOptions(options, TRY, "campaign()"));
  }

  async #campaign(site: CallSite, options: TryAcquireOptions): Promise<Lease<Fencing>> {
    const lease = await this.#lock.acquireFrom(site, options);
    this.#term = lease;
    return lease;
  }

  /**
   * Asks the nodes for the leader. The result may be outdated when you read it.
   * @returns The label of the leader, or `null` if there is none. It is empty if a client holds a plain lock of this
   * name without a label.
   * @throws `QuorumUnavailable` if fewer nodes than a quorum reply within `nodeTimeout`.
   * @throws `ClientClosed`.
   *
   * @example
   * ```js
   * await client.leader("scheduler").current(); // null
   * ```
   */
  async current(): Promise<string | null>;
  async current(none?: unknown): Promise<string | null> {
    rejectSignal(none, "current()");
    const { held, label } = await Leader.#lockOf(this).inspect();
    return held ? (label ?? "") : null;
  }

  /**
   * Returns the data that is safe to log. `util.inspect` shows the same.
   *
   * @example
   * ```js
   * JSON.stringify(client.leader("scheduler").toJSON().names); // '["scheduler"]'
   * ```
   */
  toJSON(): ReturnType<Lock["toJSON"]> {
    // Logging a Proxy of it must not throw.
    if (!(#lock in this)) return {} as never;
    return this.#lock.toJSON();
  }
}

printable(Leader, "Leader");
