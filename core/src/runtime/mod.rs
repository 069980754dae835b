//! The threads and the process: the background thread, how threads sleep and are woken, forks, and the process's end.
//!
//! After a fork, the child uses nothing that threads of the parent serve. [`per_process`] makes such values again at
//! their next use, and ends calls of the parent that the child continues.

// For the files that tests/models includes, where loom's atomics replace it.
use std::cell::RefCell;
pub(crate) use std::sync::atomic;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::LocalKey;

pub(crate) mod background;
mod exclusive;
pub(crate) mod exit;
mod per_process;
mod stack;
pub(crate) mod timers;
mod wake_handle;
mod wakeup;

pub(crate) use exclusive::{Exclusive, Visitor};
pub(crate) use per_process::Made;
pub use per_process::{PerProcess, fork_generation};
pub(crate) use stack::has_stack_space;
pub(crate) use wake_handle::WakeHandle;

/// Uses a value of this thread. `act` must not run foreign code. Returns `None` if the thread is ending.
pub(crate) fn with_local<T, R>(
    local: &'static LocalKey<RefCell<T>>,
    act: impl FnOnce(&mut T) -> R,
) -> Option<R> {
    local.try_with(|value| value.try_borrow_mut().ok().map(|mut value| act(&mut value))).ok()?
}

/// Locks a mutex, also after a panic of a thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex, also after a panic of a thread that held it. Returns `None` if another thread holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
