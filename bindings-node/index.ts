/**
 * Distributed locks over Redis, on one node or on a quorum of independent nodes.
 *
 * From the top down: `default` (`lock`, `withLock`, `configure`), `client` (`Redlock`), `lock`, `scope` (a body under a lock),
 * `bound` (names, and the options that locks share), `lease`; underneath `handle` (a lease by its number), `collection` and `loss` (what becomes
 * of leases), `calls` (promises of the native part's answers), `runtime` (how calls and outcomes cross over) with `batch` and
 * `pending`, `trace`, `steps` and `warnings` (what is told to whoever listens), `options` and `values` (what arguments may be), `credentials` and `errors`;
 * `existing` (clients of other packages, as ours) with `ioredis`, `noderedis` and `places`.
 */

import "./load.js";

export { Redlock } from "./client.js";
export type { Credentials, CredentialsSource } from "./credentials.js";
export { configure, lock, withLock } from "./default.js";
export {
  ClientClosed,
  InvalidOption,
  LockError,
  type LockErrorDetails,
  LockLost,
  LockReleased,
  LockTimeout,
  type LossReason,
  type NodeReport,
  QuorumUnavailable,
  Unsupported,
} from "./errors.js";
export { Lease } from "./lease.js";
export { Lock } from "./lock.js";
export type { Inspection, NodeInspection, Stats } from "./native.js";
export type {
  AcquireOptions,
  LockOptions,
  RedlockOptions,
  TryAcquireOptions,
  UsingOptions,
} from "./options.js";
export type { Body } from "./scope.js";
export type { LockConnection, LockRenewal } from "./steps.js";
export type { LockCall, LockLoss } from "./trace.js";
export { onWarning, type WarningListener } from "./warnings.js";

declare global {
  // As in TypeScript's own library from 5.2 on, for those before it, and whatever `lib` is.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
  interface AsyncDisposable {
    [Symbol.asyncDispose](): PromiseLike<void>;
  }
}
