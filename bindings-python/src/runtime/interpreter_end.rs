//! Delays the end of the interpreter while other threads run event loops.
//!
//! Before version 3.14, CPython ends any other thread where that thread next acquires the GIL, by unwinding its stack.
//! Frames of native code on that stack abort the process. A task that awaits one of our futures runs below such frames,
//! so the end of the interpreter waits until it has left them, and no task is run there afterwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use redlock::ffi::fork_generation;

/// The maximum time that the end of the interpreter waits.
const MAX_END_DELAY: Duration = Duration::from_secs(1);
/// The interval of its checks.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The lower half is the number of threads that run Python code below native frames. The upper half identifies the
/// process, because a forked child has no threads of its parent.
static INSIDE: AtomicU64 = AtomicU64::new(0);
static INTERPRETER_ENDS: AtomicBool = AtomicBool::new(false);

/// A thread that runs Python code below native frames.
pub(super) struct Inside(());

impl Inside {
    /// Returns `None` if the interpreter is ending.
    pub(super) fn enter() -> Option<Self> {
        let more = |count| Some(if is_ours(count) { count + 1 } else { ours() + 1 });
        let _ = INSIDE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        // Checked after the registration, so that either the end sees this thread, or this thread sees the end.
        let inside = Self(());
        (!INTERPRETER_ENDS.load(Ordering::SeqCst)).then_some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let less = |count| is_ours(count).then(|| count - 1);
        let _ = INSIDE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

fn ours() -> u64 {
    u64::from(fork_generation()) << 32
}

fn is_ours(count: u64) -> bool {
    count >> 32 == ours() >> 32
}

/// Called when the package is imported. Handlers that are registered later run earlier, while everything still works.
pub(super) fn wait_at_exit(py: Python<'_>) -> PyResult<()> {
    let wait = PyCFunction::new_closure(py, Some(c"wait"), None, |args, _| {
        INTERPRETER_ENDS.store(true, Ordering::SeqCst);
        args.py().detach(|| {
            let end = Instant::now() + MAX_END_DELAY;
            let is_inside = |count: u64| is_ours(count) && count != ours();
            while is_inside(INSIDE.load(Ordering::SeqCst)) && Instant::now() < end {
                std::thread::sleep(END_CHECK_INTERVAL);
            }
        });
    })?;
    py.import("atexit")?.call_method1("register", (wait,)).map(drop)
}
