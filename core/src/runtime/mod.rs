//! How threads and event loops sleep until another thread wakes them.

// For `wakeup`, whose model in tests/models replaces it with loom's.
use std::sync::atomic;

#[cfg(unix)]
mod descriptor;
#[cfg(unix)]
mod wake_handle;
mod wakeup;

#[cfg(unix)]
pub(crate) use wake_handle::WakeHandle;
pub(crate) use wakeup::{Sleep, Wakeup};
