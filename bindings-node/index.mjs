// The CommonJS build under its names: one copy of the package, whichever way it is loaded.
import tried from "./dist/tried.js";

if (tried.loaded === undefined) throw tried.thrown;

export const {
  ClientClosed,
  configure,
  InvalidOption,
  Lease,
  Lock,
  LockError,
  LockLost,
  LockReleased,
  LockTimeout,
  lock,
  onWarning,
  QuorumUnavailable,
  Redlock,
  Unsupported,
  withLock,
} = tried.loaded;
