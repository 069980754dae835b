//! The threads and the process: the background thread, how threads sleep and are woken, forks, and the process's end.
//!
//! After a fork, the child uses nothing that threads of the parent serve. [`per_process`] makes such values again at
//! their next use, and ends calls of the parent that the child continues.

// For the files that tests/models includes, where loom's atomics replace it.
pub(crate) use std::sync::atomic;

pub(crate) mod background;
mod descriptor;
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
