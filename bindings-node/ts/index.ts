/**
 * Distributed locks over Redis, on one node or on a quorum of independent nodes.
 *
 * The folders, from the top down. Each uses only those below it, and the page Architecture of the documentation
 * describes them:
 *
 * - `load` loads the native binary.
 * - `client` has `Redlock`, `onLog`, and the default client with `lock`, `semaphore`, `rwlock`, `once`, `leader`,
 *   `withLock` and `configure`.
 * - `compat` reads the settings of the clients of other packages.
 * - `lock` has `Lock`, `RwLock`, `Once` and `Leader`, `scope` runs a body under a lock, and `lease` has `Lease`.
 * - `runtime` exchanges calls and outcomes with the native part.
 * - `telemetry` publishes events and warnings.
 * - `options` checks arguments, `errors` has the error classes, and `platform` contains what depends on Node.js.
 */

import "./load/load.js";

export { Redlock } from "./client/client.js";
export { configure, leader, lock, once, rwlock, semaphore, withLock } from "./client/default.js";
export { type LogOptions, onLog } from "./client/log.js";
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
} from "./errors/errors.js";
export { Lease } from "./lease/lease.js";
export { Leader } from "./lock/leader.js";
export { Lock } from "./lock/lock.js";
export { Once } from "./lock/once.js";
export { RwLock } from "./lock/rwlock.js";
export type { Inspection, NodeInspection, NodePing, Ping, Stats } from "./native.js";
export type { AddressFunction, AddressMap, ServerAddress } from "./options/address-map.js";
export type { Credentials, CredentialsSource } from "./options/credentials.js";
export type {
  AcquireOptions,
  LeaderOptions,
  LockOptions,
  OnceOptions,
  ReaderOptions,
  RedlockOptions,
  SemaphoreOptions,
  TryAcquireOptions,
  UsingOptions,
} from "./options/options.js";
export type { Body, OnceResult } from "./scope/body.js";
export type { LockConnection, LockEnd, LockRenewal } from "./telemetry/events.js";
export type { LogEvent, LogLevel, LogListener } from "./telemetry/log.js";
export type { LockCall, LockLoss } from "./telemetry/trace.js";
export { onWarning, type WarningListener } from "./telemetry/warnings.js";

declare global {
  // TypeScript declares these from 5.2 on. Older versions and other `lib` settings need them here.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
  interface AsyncDisposable {
    [Symbol.asyncDispose](): PromiseLike<void>;
  }
  // The DOM's library or @types/node declares their members. TypeScript 6 and later loads neither by default.
  interface AbortSignal {}
  interface URL {}
}
