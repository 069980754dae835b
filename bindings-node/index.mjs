// Re-exports the CommonJS build by name, so that both ways of loading share one copy of the package.
import result from "./dist/loaded.js";

if (result.loaded === undefined) throw result.thrown;

export const {
  ClientClosed,
  configure,
  InvalidOption,
  Leader,
  Lease,
  Lock,
  LockError,
  LockLost,
  LockReleased,
  LockTimeout,
  leader,
  lock,
  onLog,
  onWarning,
  Once,
  once,
  QuorumUnavailable,
  Redlock,
  RwLock,
  rwlock,
  semaphore,
  Unsupported,
  withLock,
} = result.loaded;
