/** The error classes. Each has a kind, and the kinds are the same in every language. */

import { CapturedStack, limitFrames } from "../platform/stack.js";
import { type NodeReport, withoutAddresses, withoutLine } from "./addresses.js";

export type { NodeReport, NodeState } from "./addresses.js";

/** The kind of an error. */
export type ErrorKind =
  | "timeout"
  | "lost"
  | "released"
  | "unavailable"
  | "invalid"
  | "unsupported"
  | "closed"
  | "internal";

/**
 * The reason why a lease was lost. The page Troubleshooting of the documentation has causes and remedies for each,
 * under `lost`.
 */
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

/** The data of an error, besides its message. */
export interface LockErrorDetails {
  resource?: string | undefined;
  waited?: number | undefined;
  remaining?: number | undefined;
  holder?: string | undefined;
  acquiredAt?: string | undefined;
  reason?: string | undefined;
  nodes?: NodeReport[] | undefined;
  cause?: unknown;
}

/**
 * The base class of all errors. `kind` and `code` identify the error without its class. Times are in ms.
 *
 * An error of exactly this class has the kind `internal` and is a bug in redlock.
 *
 * The page Troubleshooting of the documentation lists causes and remedies for each kind.
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
  /**
   * The kind of the error, the same in every language: `timeout`, `lost`, `released`, `unavailable`, `invalid`,
   * `unsupported`, `closed` or `internal`.
   */
  readonly kind: ErrorKind = "internal";
  /** The kind as a Node.js error code, such as `ERR_REDLOCK_TIMEOUT`. */
  readonly code: `ERR_REDLOCK_${Uppercase<ErrorKind>}` = "ERR_REDLOCK_INTERNAL";
  /** The Redis key. */
  declare readonly resource: string | undefined;
  /** How long the acquire had waited, in ms. */
  declare readonly waited: number | undefined;
  /** The remaining time of the holder's lease in ms, if a node reported it. */
  declare readonly remaining: number | undefined;
  /** The label of the holder, if it has one. Any client can write any label, so it informs people only. */
  declare readonly holder: string | undefined;
  /**
   * The line of this program that acquired the lock, if this client holds it. It is not in `message`. After several
   * acquires with the same options within 50 ms, it names the first one and mentions the others.
   */
  declare readonly acquiredAt: string | undefined;
  /** Why the lease was lost. */
  declare readonly reason: LossReason | undefined;
  /** The reports of the nodes, if they caused the error. */
  declare readonly nodes: readonly NodeReport[];
  readonly #captured: CapturedStack;

  constructor(message: string, details: LockErrorDetails = {}) {
    // Read before the program's limit is changed, because reading an object of the program may throw.
    const cause = "cause" in details ? { cause: details.cause } : undefined;
    const limit = limitFrames(0);
    super(message, cause);
    this.#captured = new CapturedStack(new.target, limit);
    try {
      Object.defineProperty(this, "stack", STACK);
    } catch {
      // The platform read the stack that is being replaced through the program's `Error.prepareStackTrace`, which
      // threw.
      delete this.stack;
      Object.defineProperty(this, "stack", STACK);
    }
    const { resource, waited, remaining, holder, acquiredAt, reason, nodes = [] } = details;
    const values = { resource, waited, remaining, holder, acquiredAt, reason, nodes };
    for (const [name, value] of Object.entries(values)) {
      // Node.js prints the enumerable properties of an uncaught error. Those without a value would hide the others.
      const enumerable = value !== undefined && !(Array.isArray(value) && value.length === 0);
      Object.defineProperty(this, name, { value, enumerable, configurable: true, writable: true });
    }
  }

  /** @internal */
  static stackOf(error: LockError): unknown {
    return #captured in error ? error.#captured.textFor(error) : undefined;
  }

  /** A literal in each class, because a bundler may rename the class itself. */
  override get name(): string {
    return "LockError";
  }
}

/**
 * Thrown if the lock was not acquired within `wait`. It was held, or no client won a majority.
 *
 * See the page Troubleshooting#timeout of the documentation for causes and remedies.
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
 * Thrown if the lease ended without being released. `reason` is the cause.
 *
 * See the page Troubleshooting#lost-expired of the documentation, and its following sections for other reasons.
 *
 * @example
 * ```js
 * const lease = await client.lock("job", { ttl: 200, renew: false }).acquire();
 * const lost = new Promise((resolve) => lease.onLost(resolve));
 * (await lost).reason; // "expired"
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
 * Thrown if an operation needs a held lease, but its owner has released this one. `reason` is undefined.
 *
 * See the page Troubleshooting#released of the documentation for causes and remedies.
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
 * Thrown if too many nodes failed for a quorum. `nodes` contains the error of each.
 *
 * See the page Troubleshooting#unavailable of the documentation for causes and remedies.
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
 * Thrown for an invalid value, before anything is sent.
 *
 * See the page Troubleshooting#invalid of the documentation for causes and remedies.
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
 * Thrown if the server lacks a feature that an option needs, or if the key holds data of another type.
 *
 * See the page Troubleshooting#unsupported of the documentation for causes and remedies.
 *
 * @example
 * ```js
 * const error = new Unsupported("fsync needs WAITAOF, which the server does not support");
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
 * Thrown if the client was closed.
 *
 * See the page Troubleshooting#closed of the documentation for causes and remedies.
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

/** The `stack` property of every error. Its text is created when it is read. */
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
  kind: ErrorKind;
  message: string;
  advice?: string | undefined;
}

/**
 * Converts a failure of core to an exception. Call it where the exception is thrown, so that its stack shows the
 * caller's line.
 * @internal
 */
export function toError(thrown: unknown): Error {
  const failure = thrown as Failure & { nodes: NodeReport[] };
  if (!Array.isArray(failure.nodes)) return thrown as Error;
  const Class = CLASSES[failure.kind] ?? LockError;
  const { resource, waited, remaining, holder, reason } = failure;
  const { message: given, nodes } = withoutAddresses(failure.message, failure.nodes, resource);
  const { message, acquiredAt } =
    failure.kind === "timeout" ? withoutLine(given) : { message: given };
  const details = { resource, waited, remaining, holder, acquiredAt, reason, nodes };
  const cause = causeOf(nodes);
  const text = failure.advice === undefined ? message : `${message}. ${failure.advice}`;
  return new Class(text, cause === undefined ? details : { ...details, cause });
}

/** Codes of aborts of libraries that do not name their error `AbortError`: axios. */
const ABORT_CODES: readonly unknown[] = ["ABORT_ERR", "ERR_CANCELED"];

/** Whether the platform or a library threw this error because a signal aborted with the reason. */
function isAbort(error: unknown, reason: unknown): boolean {
  try {
    const { name, code, cause } = error as { name?: unknown; code?: unknown; cause?: unknown };
    // A DOMException has no cause. Another cause is the reason of another signal.
    return (
      (name === "AbortError" || ABORT_CODES.includes(code)) &&
      (cause === undefined || cause === reason)
    );
  } catch {
    // Null, or an object of the program that throws when it is read.
    return false;
  }
}

/**
 * Returns the error for a body that ended because the loss aborted its signal: the loss, with the body's error as its
 * cause. Returns other errors unchanged. Call it where the exception is thrown, as `toError`.
 * @internal
 */
export function lossBehind(error: unknown, loss: LockLost | undefined): unknown {
  if (loss === undefined || !isAbort(error, loss)) return error;
  const { message, resource, waited, remaining, reason } = loss;
  const nodes = [...loss.nodes];
  return new LockLost(message, { resource, waited, remaining, reason, nodes, cause: error });
}

/** Returns the errors of the failed nodes as one error. */
function causeOf(nodes: readonly NodeReport[]): Error | undefined {
  const faults = nodes.filter(({ state }) => state === "fault");
  if (faults.length === 0) return undefined;
  const limit = limitFrames(0);
  try {
    const errors = faults.map(({ url, error }) => new Error(`${url}: ${error ?? "no reply"}`));
    return errors.length === 1 ? errors[0] : new AggregateError(errors, "several nodes failed");
  } finally {
    limitFrames(limit);
  }
}
