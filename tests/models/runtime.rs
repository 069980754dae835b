//! The core's state machines of `core/src/runtime`, over loom's atomics.

use loom::sync::atomic;

#[allow(dead_code, reason = "the models do not call every function")]
#[path = "../../core/src/runtime/wakeup.rs"]
mod wakeup;

pub(crate) use wakeup::{Sleep, Wakeup};
