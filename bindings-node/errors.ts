/** The exception classes: one per kind, the same kinds in every language. */

import { withoutAddresses } from "./addresses.js";
import { limitFrames, Taken } from "./stack.js";

/** What one node had to say. */
export interface NodeReport {
  /** The node's URL without its password. */
  url: string;
  /** `granted`, `held`, `missing` (nothing to extend or release), `fault`, or `pending`: not yet answered when the round was over. */
  state: string;
  /** The fault's own text. */
  error?: string;
}

/** Why a lease ended without a release. */
export type LossReason =
  | "expired"
  | "taken"
  | "missing"
  | "quorum"
  | "max_hold"
  | "forked"
  | "closed"
  | "revoked"
  | "internal";

/** What an error knows besides its message. */
export interface LockErrorDetails {
  resource?: string | undefined;
  waited?: number | undefined;
  remaining?: number | undefined;
  reason?: string | undefined;
  nodes?: NodeReport[] | undefined;
  cause?: unknown;
}

/**
 * The base of every error here; `kind` and `code` tell them apart without the classes. Times are ms. One of this class
 * itself has the kind `internal`: a bug of redlock.
 *
 * @example
 * ```js
 * try {
 *   client.lock("job", { ttl: 0 });
 * } catch (error) {
 *   error instanceof LockError && error.kind; // "invalid"
 * }
 * ```
 */
export class LockError extends Error {
  /** The same word in every language: `timeout`, `lost`, `released`, `unavailable`, `invalid`,
   * `unsupported`, `closed` or `internal`. */
  readonly kind: string = "internal";
  /** The kind as a code in the style of Node.js: `ERR_REDLOCK_TIMEOUT`. */
  readonly code: `ERR_REDLOCK_${string}` = "ERR_REDLOCK_INTERNAL";
  /** The Redis key it is about. */
  readonly resource: string | undefined;
  /** How long the acquire had waited, in ms. */
  readonly waited: number | undefined;
  /** What is left of the holder's lease in ms, where a node told it. */
  readonly remaining: number | undefined;
  /** Why the lease was lost. */
  readonly reason: LossReason | undefined;
  /** What each node had to say, where the nodes are the cause. */
  readonly nodes: readonly NodeReport[];
  readonly #taken: Taken;

  constructor(message: string, details: LockErrorDetails = {}) {
    const limit = limitFrames(0);
    super(message, "cause" in details ? { cause: details.cause } : undefined);
    this.#taken = new Taken(new.target, limit);
    try {
      Object.defineProperty(this, "stack", STACK);
    } catch {
      // The platform asks the program's `Error.prepareStackTrace` for the stack that is replaced, and it threw.
      delete this.stack;
      Object.defineProperty(this, "stack", STACK);
    }
    this.resource = details.resource;
    this.waited = details.waited;
    this.remaining = details.remaining;
    this.reason = details.reason as LossReason | undefined;
    this.nodes = details.nodes ?? [];
  }

  /** @internal */
  static stackOf(error: LockError): unknown {
    return #taken in error ? error.#taken.of(error) : undefined;
  }

  /** Written out in each class: a bundler gives the class itself whatever name it likes. */
  override get name(): string {
    return "LockError";
  }
}

/**
 * Not acquired within `wait`: somebody else holds it, or the votes stayed split.
 *
 * @example
 * ```js
 * await lock.using(() => lock.acquire({ wait: 0 })).catch((error) => error instanceof LockTimeout); // true
 * ```
 */
export class LockTimeout extends LockError {
  override readonly kind = "timeout";
  override readonly code = "ERR_REDLOCK_TIMEOUT";

  override get name(): string {
    return "LockTimeout";
  }
}

/**
 * The lease ended without our release; `reason` says why.
 *
 * @example
 * ```js
 * const lease = await client.lock("job", { ttl: 200, renew: false }).acquire();
 * const told = new Promise((resolve) => lease.onLost(resolve));
 * (await told).reason; // "expired"
 * ```
 */
export class LockLost extends LockError {
  override readonly kind: "lost" | "released" = "lost";
  override readonly code: "ERR_REDLOCK_LOST" | "ERR_REDLOCK_RELEASED" = "ERR_REDLOCK_LOST";

  override get name(): string {
    return "LockLost";
  }
}

/**
 * The operation needs a held lease, and this one was released by its owner. `reason` is undefined.
 *
 * @example
 * ```js
 * const lease = await client.lock("job").acquire();
 * await lease.release();
 * assert.throws(() => lease.ensureHeld(), LockReleased);
 * ```
 */
export class LockReleased extends LockLost {
  override readonly kind = "released";
  override readonly code = "ERR_REDLOCK_RELEASED";

  override get name(): string {
    return "LockReleased";
  }
}

/**
 * Too many nodes are faults for a quorum; `nodes` lists each one's own error.
 *
 * @example
 * ```js
 * const nobody = new Redlock("redis://127.0.0.1:1").lock("job", { wait: 0 });
 * const failed = await nobody.acquire().catch((error) => error);
 * failed instanceof QuorumUnavailable; // true
 * failed.nodes.map((node) => node.state); // ["fault"]
 * ```
 */
export class QuorumUnavailable extends LockError {
  override readonly kind = "unavailable";
  override readonly code = "ERR_REDLOCK_UNAVAILABLE";

  override get name(): string {
    return "QuorumUnavailable";
  }
}

/**
 * A value broke a rule; nothing was sent.
 *
 * @example
 * ```js
 * assert.throws(() => client.lock("job", { ttl: 10 }), InvalidOption);
 * ```
 */
export class InvalidOption extends LockError {
  override readonly kind = "invalid";
  override readonly code = "ERR_REDLOCK_INVALID";

  override get name(): string {
    return "InvalidOption";
  }
}

/**
 * A server lacks a feature that an option needs, or the key holds data of another type.
 *
 * @example
 * ```js
 * const error = new Unsupported("fsync needs WAITAOF, which the server does not know");
 * error.code; // "ERR_REDLOCK_UNSUPPORTED"
 * ```
 */
export class Unsupported extends LockError {
  override readonly kind = "unsupported";
  override readonly code = "ERR_REDLOCK_UNSUPPORTED";

  override get name(): string {
    return "Unsupported";
  }
}

/**
 * The client was closed.
 *
 * @example
 * ```js
 * client.close();
 * await client.lock("job").acquire().catch((error) => error instanceof ClientClosed); // true
 * ```
 */
export class ClientClosed extends LockError {
  override readonly kind = "closed";
  override readonly code = "ERR_REDLOCK_CLOSED";

  override get name(): string {
    return "ClientClosed";
  }
}

/** Of every error: its text is made when it is read. */
const STACK: PropertyDescriptor & ThisType<LockError> = {
  configurable: true,
  get() {
    return LockError.stackOf(this);
  },
  set(value: unknown) {
    Object.defineProperty(this, "stack", { value, configurable: true, writable: true });
  },
};

const CLASSES: Record<string, typeof LockError> = {
  timeout: LockTimeout,
  lost: LockLost,
  released: LockReleased,
  unavailable: QuorumUnavailable,
  invalid: InvalidOption,
  unsupported: Unsupported,
  closed: ClientClosed,
};

interface Failure extends LockErrorDetails {
  kind: string;
  message: string;
}

/**
 * The exception for a failure told by core. Made where it is thrown, so that its stack leads to the caller's line.
 * @internal
 */
export function toError(thrown: unknown): Error {
  const failure = thrown as Failure & { nodes: NodeReport[] };
  if (!Array.isArray(failure.nodes)) return thrown as Error;
  const Class = CLASSES[failure.kind] ?? LockError;
  const { resource, waited, remaining, reason } = failure;
  const { message, nodes } = withoutAddresses(failure.message, failure.nodes, resource);
  const details = { resource, waited, remaining, reason, nodes };
  const cause = causeOf(nodes);
  return new Class(message, cause === undefined ? details : { ...details, cause });
}

/** What the nodes that failed say: one error, or all of them. */
function causeOf(nodes: readonly NodeReport[]): Error | undefined {
  const faults = nodes.filter(({ state }) => state === "fault");
  if (faults.length === 0) return undefined;
  const limit = limitFrames(0);
  try {
    const errors = faults.map(({ url, error }) => new Error(`${url}: ${error ?? "no answer"}`));
    return errors.length === 1 ? errors[0] : new AggregateError(errors, "the nodes that failed");
  } finally {
    limitFrames(limit);
  }
}
