/**
 * Distributed locks over Redis, on one node or on a quorum of independent nodes.
 *
 * The public modules, from the top down, are `default` (`lock`, `withLock`, `configure`), `client` (`Redlock`), `lock`
 * and `lease`. `scope` runs a body under a lock, and `bound-lock` contains names and shared options.
 *
 * Below them are `handle` (the state of a lease), `collection` and `loss` (collected and lost leases) and `calls`
 * (promises for native calls). `runtime` exchanges calls and outcomes with the native part, with `batch` and `pending`.
 * `trace`, `events` and `warnings` notify the program. `options` and `values` check arguments. The page
 * Architecture of the documentation lists all modules.
 *
 * `existing` with `ioredis`, `noderedis` and `foreign-settings` reads the settings of other packages' clients.
 */

import "./load.js";

export type { AddressFunction, AddressMap, ServerAddress } from "./address-map.js";
export { Redlock } from "./client.js";
export type { Credentials, CredentialsSource } from "./credentials.js";
export { configure, lock, withLock } from "./default.js";
export {
  ClientClosed,
  type ErrorKind,
  InvalidOption,
  LockError,
  type LockErrorDetails,
  LockLost,
  LockReleased,
  LockTimeout,
  type LossReason,
  type NodeReport,
  type NodeState,
  QuorumUnavailable,
  Unsupported,
} from "./errors.js";
export type { LockConnection, LockRenewal } from "./events.js";
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
export type { LockCall, LockLoss } from "./trace.js";
export { onWarning, type WarningListener } from "./warnings.js";

declare global {
  // TypeScript declares these from 5.2 on. Older versions and other `lib` settings need them here.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
  interface AsyncDisposable {
    [Symbol.asyncDispose](): PromiseLike<void>;
  }
  // The DOM's library or @types/node declares its members. TypeScript 6 and later loads neither by default.
  interface AbortSignal {}
}
