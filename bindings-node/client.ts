/** The client: nodes and options. */

import { Bound, ByOptions, Shared } from "./bound.js";
import { attempt, endOfScope, settled, unwrap } from "./calls.js";
import type { Kept } from "./credentials.js";
import { InvalidOption } from "./errors.js";
import { takenOver } from "./existing.js";
import type { Lease } from "./lease.js";
import { leasesOf } from "./listed.js";
import { Lock } from "./lock.js";
import { printable, uncloneable } from "./looks.js";
import { NativeClient, type Stats } from "./native.js";
import type { LockOptions, RedlockOptions, ShownOptions, UsingOptions } from "./options.js";
import {
  CLIENT,
  checked,
  LOCK,
  nativeOptions,
  noSignal,
  SHUTDOWN,
  shownOptions,
  USING,
} from "./options.js";
import { native } from "./runtime.js";
import { type Body, bodyOf } from "./scope.js";
import { isObject, NODE_REDLOCK_ACQUIRE, NODES, nameList, notOurs } from "./values.js";

const UNCLONEABLE = uncloneable("a client", "make another one there");

/** What stands behind a client. */
interface Parts {
  native: NativeClient;
  /** What its connections ask for credentials. */
  kept: Kept | undefined;
  /** What `toJSON` shows: the options themselves may hold secrets. */
  shown: ShownOptions;
  /** The options of its locks. */
  sets: ByOptions<Shared>;
}

/**
 * The client: nodes and options. Cheap to share; nothing connects before the first use.
 *
 * @example
 * ```js
 * const client = new Redlock(["memory://a", "memory://b", "memory://c"], { keyPrefix: "app:" });
 * client.lock("job").key; // "app:job"
 * ```
 */
export class Redlock {
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #parts: Parts;

  /**
   * A client over these nodes: one URL, or several of independent servers: `redis://[user:password@]host[:port][/db]`,
   * `rediss://` (TLS), `redis+sentinel://host,host/service`, `redis+cluster://host,host`, `unix:///path`, `memory://[name]`.
   * Throws `InvalidOption` for a value that breaks a rule.
   */
  constructor(nodes: string | readonly string[], options?: RedlockOptions) {
    const urls = nameList(nodes, NODES, "Redlock()");
    const given = checked(options, CLIENT, "Redlock()");
    const shown = shownOptions(given, CLIENT);
    const [args, kept] = nativeOptions(given);
    const client = attempt(() => new NativeClient(native(), urls, args));
    this.#parts = { native: client, kept, shown, sets: new ByOptions() };
  }

  /** The parts of a client, which may be anything where a method was detached from its object. */
  static #of(client: Redlock): Parts {
    if (isObject(client) && #parts in client) return client.#parts;
    throw notOurs("Redlock", client);
  }

  /**
   * A client of the servers that clients of ioredis or of node-redis are for, with connections of its own: address, login,
   * TLS, name and time-outs are taken over, `options` win. A list of them is a quorum. Throws `InvalidOption` for what is
   * no such client, and for a setting without a counterpart that says whom to trust or where to go; warns of others.
   *
   * @example
   * ```js
   * Redlock.fromClient({ isCluster: false, options: { host: "a", db: 1 } }).nodes; // ["redis://a:6379/1"]
   * ```
   */
  static fromClient(clients: object | readonly object[], options?: RedlockOptions): Redlock {
    return new Redlock(...takenOver(clients, checked(options, CLIENT, "fromClient()")));
  }

  /**
   * The nodes' URLs without user and password.
   * @example
   * ```js
   * new Redlock("redis://user:secret@127.0.0.1:6379/1").nodes; // ["redis://127.0.0.1:6379/1"]
   * ```
   */
  get nodes(): string[] {
    return Redlock.#of(this).native.nodes;
  }

  /**
   * Describes a lock on one name, or on several (1,000 at most) as one; nothing is sent. Throws `InvalidOption` for a
   * value that breaks a rule.
   * @example
   * ```js
   * const lock = client.lock("job", { ttl: 10_000, wait: 5_000 });
   * const lease = await lock.acquire();
   * await lease.release();
   * ```
   */
  lock<Fencing extends boolean = false>(
    names: string | readonly string[],
    options?: LockOptions<Fencing>,
  ): Lock<Fencing> {
    const list = nameList(names, "the name", "lock()");
    return Redlock.#lock(Redlock.#of(this), list, checked(options, LOCK, "lock()"));
  }

  /** A lock with options that are checked by themselves, not yet by core. */
  static #lock<Fencing extends boolean>(
    { native, kept, sets }: Parts,
    names: string[],
    options: LockOptions,
  ): Lock<Fencing> {
    const make = () =>
      new Shared(
        attempt(() => native.optionSet(names, options)),
        options,
        kept,
      );
    const shared = sets.of(options, make);
    shared.check(names);
    return new Lock<Fencing>(new Bound(shared, names));
  }

  /** @internal What node-redlock has here. */
  acquire(): never {
    throw new InvalidOption(NODE_REDLOCK_ACQUIRE);
  }

  /**
   * Runs `body` under the lock, and settles as it does: `lock(names, options).using({ signal }, body)`, which says more.
   * @example
   * ```js
   * await client.using("job", { ttl: 10_000 }, async (lease) => lease.held); // true
   * ```
   */
  async using<T>(names: string | readonly string[], body: Body<T, false>): Promise<T>;
  async using<T, Fencing extends boolean = false>(
    names: string | readonly string[],
    options: UsingOptions<Fencing>,
    body: Body<T, Fencing>,
  ): Promise<T>;
  async using<T>(
    names: string | readonly string[],
    second: UsingOptions | Body<T>,
    third?: Body<T>,
  ): Promise<T> {
    const parts = Redlock.#of(this);
    const [{ signal, ...options }, body] = bodyOf(second, third, USING, "using()");
    const list = nameList(names, "the name", "using()");
    return await Redlock.#lock(parts, list, options).run(body, { signal }, this.using);
  }

  /**
   * Continues the lease that another process holds under this token: `lock(names, options).attach(token)`, which says more.
   * @example
   * ```js
   * const theirs = await client.attach("job", lease.token, { ttl: 5_000 });
   * ```
   */
  async attach(
    names: string | readonly string[],
    token: string,
    options?: LockOptions,
  ): Promise<Lease<false>> {
    Redlock.#of(this);
    return await this.lock(names, options).continued(token, this.attach);
  }

  /**
   * Deletes the lock whoever holds it, who is told of the loss; true if there was one. Rejects with `QuorumUnavailable`.
   * @example
   * ```js
   * await client.forceRelease("job"); // true
   * ```
   */
  async forceRelease(names: string | readonly string[]): Promise<boolean>;
  async forceRelease(names: string | readonly string[], none?: unknown): Promise<boolean> {
    const ready = Redlock.#ready(this);
    noSignal(none, "forceRelease()");
    const list = nameList(names, "the name", "forceRelease()");
    return unwrap(await settled((slot) => ready.forceRelease(slot, list)));
  }

  /**
   * What this client has done in this process so far, in numbers; times are in ms.
   * @example
   * ```js
   * client.stats().granted; // 0
   * ```
   */
  stats(): Stats {
    return Redlock.#ready(this).stats();
  }

  /**
   * The leases that this client holds now: the objects that were handed out.
   * @example
   * ```js
   * client.leases().map((lease) => lease.key); // ["lock:job"]
   * ```
   */
  leases(): Lease[] {
    return leasesOf(Redlock.#ready(this).leases(), Redlock.#of(this).kept);
  }

  /**
   * Gives back all that this client holds; says how many. Whoever still runs under such a lease is told that it is lost,
   * with reason `revoked`. Rejects with the first error once all were tried.
   * @example
   * ```js
   * await client.releaseAll(); // 1
   * ```
   */
  async releaseAll(): Promise<number>;
  async releaseAll(none?: unknown): Promise<number> {
    const ready = Redlock.#ready(this);
    noSignal(none, "releaseAll()");
    return unwrap(await settled((slot) => ready.releaseAll(slot)));
  }

  /**
   * Ends the client in order. Resolves with how many leases were still held at the timeout.
   *
   * From the call on, new acquires reject with `ClientClosed`. Acquires that wait already have `timeout` to get their lease,
   * and held leases to be released. At the timeout, acquires that still wait reject with `ClientClosed`. Leases that are
   * still held are released, and their holders are notified of a loss with reason `revoked`. A node that cannot be reached
   * and has pending deletes gets until `timeout` to return.
   * @param timeout Milliseconds, default 10,000. With 0, acquires that wait and held leases end at once.
   * @throws `QuorumUnavailable` if too few nodes confirmed the releases. Those keys expire when their TTL ends. The client
   * is closed nevertheless.
   * @example
   * ```js
   * await client.shutdown(0); // 1
   * ```
   */
  async shutdown(timeout?: number): Promise<number>;
  async shutdown(timeout = 10_000, none?: unknown): Promise<number> {
    const ready = Redlock.#ready(this);
    noSignal(none, "shutdown()");
    const given = checked({ timeout }, SHUTDOWN, "shutdown()");
    const begin = (slot: number) => attempt(() => ready.shutdown(slot, given.timeout));
    return unwrap(await settled(begin));
  }

  /**
   * Ends it at once: waiting acquires reject with `ClientClosed`, leases are lost, keys end with their ttl. `shutdown()`
   * is the orderly way.
   * @example
   * ```js
   * client.close();
   * await client.lock("job").acquire().catch((error) => error.kind); // "closed"
   * ```
   */
  close(): void {
    Redlock.#ready(this).close();
  }

  /**
   * The end of a scope: `shutdown(0)`, but unreachable nodes are only warned of, since the keys end by themselves.
   * @example
   * ```js
   * await client[Symbol.asyncDispose](); // what `await using client = new Redlock(...)` does at its end
   * ```
   */
  async [Symbol.asyncDispose](): Promise<void> {
    Redlock.#of(this);
    await endOfScope(this.shutdown(0), "the keys end with their ttl");
  }

  /**
   * Returns what may be logged of the client: `nodes` without passwords and `options` without secrets. Certificates and
   * keys are shown as their size, `credentials` are left out. `util.inspect` shows the same.
   * @example
   * ```js
   * JSON.stringify(new Redlock("redis://:pw@a")); // '{"nodes":["redis://a:6379"],"options":{}}'
   * ```
   */
  toJSON(): { nodes: string[]; options: Record<string, number | boolean | string> } {
    // To log a Proxy of it must not throw.
    if (!(#parts in this)) return {} as never;
    return { nodes: this.nodes, options: { ...this.#parts.shown } };
  }

  /** The native client, once the native part knows of every call so far. */
  static #ready(client: Redlock): NativeClient {
    native();
    return Redlock.#of(client).native;
  }
}

printable(Redlock, "Redlock");
