//! Runs futures of the core for Python, and handles every hazard between Rust threads and Python.
//!
//! - **The GIL** is never held while waiting (`wait`), and core's background thread never takes it. That thread puts
//!   its results into a queue as plain data. A Python thread or an event loop takes them from there.
//! - **Panics** in a future, a conversion or a job of a dispatcher become a LockError (`guarded`). One in a method
//!   itself becomes the PanicException of pyo3.
//! - **Signals**: a waiting thread looks for them every 50 ms, so Ctrl-C raises; the dropped future cleans up after
//!   itself.
//! - **Event loops** (`event_loop`, `completions`): one queue per loop, one wake-up per batch. A separate thread wakes
//!   those that cannot watch a descriptor (`waker`).
//! - **Logs and callbacks outside a loop** (`log`, `watch`, `loss_callback`, `dispatcher`): native threads, started at
//!   first use. A loss never waits for a log record, nor for a callback of another client.
//! - **trio** (`async_backends`): the Python code presents it as an event loop, if the program has imported it.
//! - **gevent and eventlet** (`greenlets`): a waiting greenlet lets others run.
//! - **Exits**: an exit waits briefly for pending clean-ups (`exit`), and for threads with Python code below native
//!   frames (`interpreter_end`). `dispatcher` and `waker` stop their threads.
//! - **Forks**: whatever belongs to the parent (`redlock::ffi::fork_generation`) is not touched. The child creates
//!   its own.
//!
//! The statics of this crate are locked with the GIL held and never across a call into Python, so a fork, which holds
//! the GIL, finds them free. A free-threaded interpreter has no such lock, so a program there must not fork while other
//! threads use this package.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::errors::internal;

pub(crate) mod spawn;

pub(crate) mod event_loop;

mod completions;
mod done_callback;
mod future_outcome;
mod loop_future;
mod pending_calls;

pub(crate) mod log;
pub(crate) mod observe;
pub(crate) mod origin;
mod pipe;
mod queue;
pub(crate) mod traversed;
mod waker;
pub(crate) mod watch;

pub(crate) mod loss_callback;

mod dispatcher;

pub(crate) mod wait;

pub(crate) mod async_backends;
pub(crate) mod exit;
pub(crate) mod greenlets;
mod interpreter_end;

/// Creates the classes that no module exports, and registers the exit handlers.
pub(crate) fn make_classes(py: Python<'_>) -> PyResult<()> {
    completions::make_class(py);
    event_loop::make_class(py);
    loop_future::make_class(py);
    loss_callback::make_class(py);
    interpreter_end::wait_at_exit(py)
}

/// A map by number. The hash function of the standard library would add a twentieth to an acquire's instructions.
pub(crate) type ByNumber<T> = HashMap<u64, T, foldhash::quality::RandomState>;

/// Locks a mutex. Poisoning is ignored, because a panic leaves the data consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts a panic to an exception, so that it does not end a shared thread or the rest of a batch.
///
/// A call into Python can also panic, if native code panics there.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let guarded = || {
        let stays = Stays;
        let done = work();
        std::mem::forget(stays);
        done
    };
    catch_unwind(AssertUnwindSafe(guarded)).unwrap_or_else(|_| Err(internal()))
}

/// Begins a call of the core, which sends its commands before it returns a future. It panics if the program has closed
/// descriptors. The exception must then be one that names them.
pub(crate) fn begin_call<T>(call: impl FnOnce() -> T) -> PyResult<T> {
    guarded(|| Ok(call()))
}

/// Parks a thread that is in a call into Python when the interpreter exits.
///
/// When such a thread takes the GIL again, Python ends it by unwinding, and catching that aborts the process. The
/// thread stays parked until the process ends instead.
struct Stays;

impl Drop for Stays {
    fn drop(&mut self) {
        // A panic of this crate unwinds as usual.
        while !std::thread::panicking() {
            std::thread::park();
        }
    }
}
