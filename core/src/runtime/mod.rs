//! The threads and the process: the background thread, how threads sleep and are woken, forks, and the process's end.

// For the files that tests/models includes, where loom's atomics replace it.
pub(crate) use std::sync::atomic;

pub(crate) mod background;
#[cfg(unix)]
mod descriptor;
mod exclusive;
pub(crate) mod exit;
mod fork_safe;
pub(crate) mod park;
mod per_process;
#[cfg(unix)]
mod wake_handle;
mod wakeup;

pub(crate) use exclusive::{Exclusive, Visitor};
pub(crate) use fork_safe::ForkSafe;
pub(crate) use per_process::Made;
pub use per_process::{PerProcess, fork_generation};
#[cfg(unix)]
pub(crate) use wake_handle::WakeHandle;
pub(crate) use wakeup::{Sleep, Wakeup};
