// Re-exports the CommonJS build by name, so that both ways of loading share one copy of the package.
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
