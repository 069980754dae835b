// The CommonJS build under its names: one copy of the package, whichever way it is loaded.
import redlock from "./dist/index.js";

export const {
  ClientClosed,
  configure,
  InvalidOption,
  Lease,
  Lock,
  LockError,
  LockLost,
  LockTimeout,
  lock,
  onWarning,
  QuorumUnavailable,
  Redlock,
  using,
} = redlock;
