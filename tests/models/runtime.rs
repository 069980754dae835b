//! The core's state machines of `core/src/runtime`, over loom's atomics.

pub(crate) use loom::sync::atomic;

#[path = "../../core/src/runtime/exclusive.rs"]
mod exclusive;
#[allow(dead_code, reason = "the models do not call every function")]
#[path = "../../core/src/runtime/wakeup.rs"]
mod wakeup;

pub(crate) use exclusive::{Exclusive, Visitor};
pub(crate) use wakeup::{SleepKind, Wakeup};
