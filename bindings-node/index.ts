/**
 * Distributed locks over Redis, on one node or on a quorum of independent nodes.
 *
 * Reading order: `client` (`Redlock`, `lock`, `using`, `configure`), `lock`, `lease`, `errors`; underneath `options`
 * (what arguments may be), `calls` (promises of the native part's answers) and `rows` (how they cross over).
 */

/// <reference lib="esnext.disposable" preserve="true" />

export { type Body, configure, lock, Redlock, using } from "./client.js";
export {
  ClientClosed,
  InvalidOption,
  LockError,
  type LockErrorDetails,
  LockLost,
  LockTimeout,
  type LossReason,
  type NodeReport,
  QuorumUnavailable,
} from "./errors.js";
export { Lease } from "./lease.js";
export { Lock } from "./lock.js";
export type { Inspection, NodeInspection } from "./native.js";
export type { AcquireOptions, LockOptions, RedlockOptions } from "./options.js";
