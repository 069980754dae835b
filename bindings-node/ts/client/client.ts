/** The client, which combines nodes and options. */
import { readClients } from "../compat/existing.js";
import { InvalidOption } from "../errors/errors.js";
import type { Lease } from "../lease/lease.js";
import { leasesOf } from "../lease/lease-list.js";
import { awaitScopeEnd } from "../lease/scope-end.js";
import { describeLeader, describeLock, describeOnce, describeSemaphore } from "../lock/describe.js";
import type { Leader } from "../lock/leader.js";
import { Lock } from "../lock/lock.js";
import { type ClientParts, clientParts } from "../lock/locks.js";
import type { Once } from "../lock/once.js";
import { RwLock } from "../lock/rwlock.js";
import type { NativeClient, Ping, Stats } from "../native.js";
import {
  CLIENT,
  checkOptions,
  type LeaderOptions,
  type LockOptions,
  type OnceOptions,
  type RedlockOptions,
  rejectSignal,
  type SemaphoreOptions,
  type ShownOptions,
  TIMEOUT,
  USING,
  type UsingOptions,
} from "../options/options.js";
import { isObject, NODE_REDLOCK_ACQUIRE, nameList, wrongReceiver } from "../options/values.js";
import { printable, uncloneable } from "../platform/inspect-format.js";
import { attempt, settled, unwrap } from "../runtime/results.js";
import { native } from "../runtime/runtime.js";
import { type Body, bodyOf } from "../scope/body.js";

const UNCLONEABLE = uncloneable("a client", "Create a new one there");

/**
 * A client for one set of Redis nodes. It is cheap to share and connects at the first use.
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
  readonly #parts: ClientParts;

  /**
   * Creates a client.
   * @param nodes One URL, as text or as a `URL`, or an array of URLs of independent servers:
   * `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS), `redis+sentinel://host,host/service`,
   * `redis+cluster://host,host`, `unix:///path` or `memory://[name]`.
   * @param options Options of the client, and none by default.
   * @throws `InvalidOption` for an invalid URL or option.
   */
  constructor(nodes: string | URL | readonly (string | URL)[], options?: RedlockOptions) {
    this.#parts = clientParts(nodes, options);
  }

  /** Returns the state of a client. Throws if a method was called on another object. */
  static #partsOf(client: Redlock): ClientParts {
    if (isObject(client) && #parts in client) return client.#parts;
    throw wrongReceiver("Redlock", client);
  }

  /**
   * Creates a client with the settings of an ioredis or node-redis client. It opens separate connections.
   * Address, login, TLS, name and timeouts are copied. Unknown settings are ignored, with one warning.
   * @param clients One client, or an array of clients that form a quorum.
   * @param options Options of `Redlock`. They take precedence over the copied settings.
   * @throws `InvalidOption` for any other object, and for a setting without a counterpart that decides which server is
   * used or trusted.
   * @example
   * ```js
   * Redlock.fromClient({ isCluster: false, options: { host: "a", db: 1 } }).nodes; // ["redis://a:6379/1"]
   * ```
   */
  static fromClient(clients: object | readonly object[], options?: RedlockOptions): Redlock {
    return new Redlock(...readClients(clients, checkOptions(options, CLIENT, "fromClient()")));
  }

  /**
   * The URLs of the nodes, without user and password.
   * @example
   * ```js
   * new Redlock("redis://user:secret@127.0.0.1:6379/1").nodes; // ["redis://127.0.0.1:6379/1"]
   * ```
   */
  get nodes(): string[] {
    return Redlock.#partsOf(this).native.nodes;
  }

  /**
   * Creates a lock. Sends nothing.
   * @param names One name, or up to 1,000 names that the lock holds together.
   * @param options Options of the lock.
   * @throws `InvalidOption` for an invalid name or option.
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
    return describeLock(Redlock.#partsOf(this).locks.create, names, options);
  }

  /**
   * Creates a semaphore: at most `limit` of its permits have owners at a time. Sends nothing.
   *
   * It is used like a lock, and each lease has one permit, or `permits`. Each permit is a key that expires with its
   * lease, so a process that dies loses none. Fencing tokens and `attach` are not available. `tryAcquire` and a `wait`
   * of 0 may take up to four rounds.
   * @param name The name.
   * @param options Options of the semaphore. `limit` is required.
   * @throws `InvalidOption` for an invalid name or option.
   * @example
   * ```js
   * const exports = client.semaphore("exports", { limit: 2, wait: 0 });
   * await exports.using(() => exports.using(() => exports.tryAcquire())); // null
   * ```
   */
  semaphore(name: string, options: SemaphoreOptions): Lock<false> {
    return describeSemaphore(Redlock.#partsOf(this).locks.create, name, options);
  }

  /**
   * Creates a read/write lock: any number of readers hold it at a time, or one writer. Sends nothing.
   *
   * Its sides are locks. Readers and writers that wait take turns, so neither waits forever for the other. `lock()` on
   * the same name excludes both sides, but takes no turns.
   * @param name The name.
   * @throws `InvalidOption` for an invalid name.
   * @example
   * ```js
   * const config = client.rwlock("config");
   * await config.read().using(() => config.write().tryAcquire()); // null
   * ```
   */
  rwlock(name: string): RwLock;
  rwlock(name: string, none?: unknown): RwLock {
    return new RwLock(name, Redlock.#partsOf(this).locks.create, none);
  }

  /**
   * Creates a run that happens once in the time `remember`, over all clients. Sends nothing.
   *
   * It runs under the lock of this name, whose key is kept after a success. Do not use the name for a lock.
   * @param name The name.
   * @param options Options of the run. `remember` is required.
   * @throws `InvalidOption` for an invalid name or option.
   * @example
   * ```js
   * await client.once("payment:42", { remember: 86_400_000 }).run(() => 7); // { ran: true, value: 7 }
   * ```
   */
  once(name: string, options: OnceOptions): Once {
    return describeOnce(Redlock.#partsOf(this).locks.create, name, options);
  }

  /**
   * Creates a candidate of an election, of which at most one leads at a time. Sends nothing.
   * @param name The name. A leader holds the lock of this name.
   * @param options Options of the candidate.
   * @throws `InvalidOption` for an invalid name or option.
   * @example
   * ```js
   * await client.leader("scheduler", { ttl: 10_000 }).run(async ({ signal }) => "led"); // "led"
   * ```
   */
  leader<Fencing extends boolean = false>(
    name: string,
    options?: LeaderOptions<Fencing>,
  ): Leader<Fencing> {
    return describeLeader(Redlock.#partsOf(this).locks.create, name, options);
  }

  /** @internal node-redlock has this method. The error says what to write instead. */
  acquire(): never {
    throw new InvalidOption(NODE_REDLOCK_ACQUIRE);
  }

  /**
   * Runs `body` while holding the lock. The same as `lock(names, options).using({ signal }, body)`.
   * @param names One name or several.
   * @param options Options of the lock, and a `signal`.
   * @param body The function to run. It receives the lease.
   * @returns The result of `body`.
   * @throws The same errors as `Lock.using`.
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
    const { locks } = Redlock.#partsOf(this);
    const [{ signal, ...options }, body] = bodyOf(second, third, USING, "using()");
    const list = nameList(names, "the name", "using()");
    return await locks.create(list, options).run(body, { signal }, this.using);
  }

  /**
   * Continues the lease that another process holds. The same as `lock(names, options).attach(token)`.
   * @param names The names of that lease.
   * @param token The token of that lease.
   * @param options Options of the lock.
   * @throws The same errors as `Lock.attach`.
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
    Redlock.#partsOf(this);
    return await this.lock(names, options).continued(token, this.attach);
  }

  /**
   * Deletes the lock, even if another client holds it. A running holder is notified of the loss.
   * @param names One name or several, or a lock. A semaphore needs the latter. Readers lose a read/write lock together.
   * @returns Whether any node had a key of the lock.
   * @throws `QuorumUnavailable` if too few nodes reply.
   * @throws `Unsupported` if the key has a value that is not a token. It is then no lock, and stays.
   * @example
   * ```js
   * await client.forceRelease("job"); // true
   * ```
   */
  async forceRelease(names: string | readonly string[] | Lock): Promise<boolean>;
  async forceRelease(names: string | readonly string[] | Lock, none?: unknown): Promise<boolean> {
    const ready = Redlock.#nativeOf(this);
    rejectSignal(none, "forceRelease()");
    if (Lock.isLock(names)) {
      const { names: list, options } = names.toJSON();
      const { shared, nativeNames } = Redlock.#partsOf(this).locks.bound(list, options);
      return unwrap(await settled((slot) => shared.native.forceRelease(slot, nativeNames)));
    }
    const list = nameList(names, "the name", "forceRelease()");
    return unwrap(await settled((slot) => ready.forceRelease(slot, list)));
  }

  /**
   * Asks each node whether it would grant a lock now, for readiness probes. No lock is acquired.
   *
   * It sends a write without effect, which a replica, a server that is loading, and one without memory or disk refuse.
   * Nodes that fail are part of the result, and no error.
   * @param timeout Maximum time to wait for all replies, in ms. Default 1,000.
   * @returns A `Ping`, whose `ready` is true if a quorum of the nodes would grant a lock.
   * @throws `ClientClosed`, or `InvalidOption` for an invalid timeout.
   * @example
   * ```js
   * (await client.ping(500)).ready; // true
   * ```
   */
  async ping(timeout?: number): Promise<Ping>;
  async ping(timeout = 1_000, none?: unknown): Promise<Ping> {
    const ready = Redlock.#nativeOf(this);
    rejectSignal(none, "ping()");
    const given = checkOptions({ timeout }, TIMEOUT, "ping()");
    return unwrap(await settled((slot) => attempt(() => ready.ping(slot, given.timeout))));
  }

  /**
   * Returns the statistics of this client in this process. Times are in ms.
   * @example
   * ```js
   * client.stats().granted; // 0
   * ```
   */
  stats(): Stats {
    return Redlock.#nativeOf(this).stats();
  }

  /**
   * Returns the leases that this client holds now, as the objects that `acquire` returned.
   * @example
   * ```js
   * client.leases().map((lease) => lease.key); // ["lock:job"]
   * ```
   */
  leases(): Lease[] {
    return leasesOf(Redlock.#nativeOf(this).leases(), Redlock.#partsOf(this).keepAlive);
  }

  /**
   * Releases all leases that this client holds. Their holders are notified of a loss with reason `revoked`.
   * @returns The number of leases.
   * @throws The first error, after all releases were tried.
   * @example
   * ```js
   * await client.releaseAll(); // 1
   * ```
   */
  async releaseAll(): Promise<number>;
  async releaseAll(none?: unknown): Promise<number> {
    const ready = Redlock.#nativeOf(this);
    rejectSignal(none, "releaseAll()");
    return unwrap(await settled((slot) => ready.releaseAll(slot)));
  }

  /**
   * Shuts the client down in order.
   *
   * New acquires reject with `ClientClosed` from now on. Waiting acquires have until the timeout to get their lease,
   * and held leases have until then to be released. At the timeout, acquires that still wait reject with
   * `ClientClosed`. Leases that are still held are released, and their holders are notified of a loss with reason
   * `revoked`. An unreachable node with pending deletes has until the timeout to come back.
   * @param timeout Milliseconds, default 10,000. With 0, waiting acquires and held leases end immediately.
   * @returns The number of leases that were still held at the timeout, or 0 if the client is already closed.
   * @throws `QuorumUnavailable` if too few nodes confirmed the releases. Those keys expire when their TTL ends. The
   * client is closed nevertheless.
   * @example
   * ```js
   * await client.shutdown(0); // 1
   * ```
   */
  async shutdown(timeout?: number): Promise<number>;
  async shutdown(timeout = 10_000, none?: unknown): Promise<number> {
    const ready = Redlock.#nativeOf(this);
    rejectSignal(none, "shutdown()");
    const given = checkOptions({ timeout }, TIMEOUT, "shutdown()");
    const begin = (slot: number) => attempt(() => ready.shutdown(slot, given.timeout));
    return unwrap(await settled(begin));
  }

  /**
   * Closes the client immediately, without releasing. Use `shutdown()` to release first.
   *
   * Waiting acquires reject with `ClientClosed`. Leases are lost, and their keys expire when their TTL ends.
   * @example
   * ```js
   * client.close();
   * await client.lock("job").acquire().catch((error) => error.kind); // "closed"
   * ```
   */
  close(): void {
    Redlock.#nativeOf(this).close();
  }

  /**
   * Ends the scope of `await using` with `shutdown(0)`. Unreachable nodes only cause a warning, because the keys
   * expire.
   * @example
   * ```js
   * await client[Symbol.asyncDispose](); // what `await using client = new Redlock(...)` does at its end
   * ```
   */
  async [Symbol.asyncDispose](): Promise<void> {
    Redlock.#partsOf(this);
    await awaitScopeEnd(this.shutdown(0));
  }

  /**
   * Returns the data that is safe to log: `nodes` without passwords and `options` without secrets.
   * Certificates and keys appear as their size in bytes, `credentials` and `addressMap` not at all. `util.inspect` shows
   * the same.
   * @example
   * ```js
   * JSON.stringify(new Redlock("redis://:pw@a")); // '{"nodes":["redis://a:6379"],"options":{}}'
   * ```
   */
  toJSON(): { nodes: string[]; options: ShownOptions } {
    // Logging a Proxy of a client must not throw.
    if (!(#parts in this)) return {} as never;
    return { nodes: this.nodes, options: { ...this.#parts.shown } };
  }

  /** @internal For `TestRedlock`. Advances the clock of a node from one deadline to the next. */
  async stepNode(node: string, ms: number): Promise<void> {
    await settled((slot) => native().stepMemory(slot, node, ms));
  }

  /** Returns the native client, after sending all recorded calls. */
  static #nativeOf(client: Redlock): NativeClient {
    native();
    return Redlock.#partsOf(client).native;
  }
}

printable(Redlock, "Redlock");
