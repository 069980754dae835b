//! A thread that wakes event loops that cannot watch a descriptor: trio, and the loops of Windows.
//!
//! It runs no code of the program. A dispatcher cannot do this, because a callback or a log handler may block its
//! thread, or wait there for the loop.

use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, channel as ended};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use redlock::ffi::{Made, PerProcess};

use super::{guarded, lock};
use crate::errors::scarce;

/// How long the end of the interpreter waits for the thread.
const MAX_THREAD_WAIT: Duration = Duration::from_secs(1);

type Wake = fn(Python<'_>, u64);

#[derive(Default)]
struct State {
    /// The numbers of the loops to wake.
    loops: Vec<u64>,
    /// Wakes the loop with this number. Set when the first loop needs it.
    wake: Option<Wake>,
    is_started: bool,
    is_stopping: bool,
}

#[derive(Default)]
struct Channel {
    state: Mutex<State>,
    filled: Condvar,
}

/// A forked child creates a new one, because a thread of the parent may have held the mutex during the fork.
static CHANNEL: PerProcess<Channel> = PerProcess::new();

fn channel() -> impl Deref<Target = impl Deref<Target = Channel>> {
    CHANNEL.get_or_make(Channel::default)
}

/// Has the thread wake the loop with this number. Called from any thread. Never waits for the GIL.
pub(super) fn wake_later(number: u64) {
    let channel = channel();
    lock(&channel.state).loops.push(number);
    channel.filled.notify_one();
    // A loop may run in an exit handler, after the thread was stopped. It is not woken if no thread can be started.
    let _ = start_thread(&channel);
}

/// Has the thread start when a loop needs it. `wake` wakes the loop with this number.
pub(super) fn prepare(wake: Wake) {
    lock(&channel().state).wake.get_or_insert(wake);
}

/// Starts the thread, unless it runs in this process. `wake` wakes the loop with this number.
pub(super) fn start(py: Python<'_>, wake: Wake) -> PyResult<()> {
    let channel = channel();
    lock(&channel.state).wake = Some(wake);
    let started = start_thread(&channel)
        .map_err(|error| scarce("the thread that wakes event loops cannot be started", &error))?;
    started.map_or(Ok(()), |end| stop_at_exit(py, end))
}

/// Starts the thread, unless it runs or no loop needs it. The returned channel closes when the thread ends.
fn start_thread(channel: &Channel) -> std::io::Result<Option<Receiver<()>>> {
    let mut state = lock(&channel.state);
    let Some(wake) = state.wake.filter(|_| !state.is_started) else { return Ok(None) };
    let (ends, end) = ended();
    let native = std::thread::Builder::new().name("redlock-waker".into());
    native.spawn(move || run(wake, ends))?;
    state.is_started = true;
    Ok(Some(end))
}

/// Stops the thread before the interpreter ends, because a thread that then acquires the GIL never returns.
fn stop_at_exit(py: Python<'_>, end: Receiver<()>) -> PyResult<()> {
    let end = Made::new(Mutex::new(end));
    let stop = PyCFunction::new_closure(py, Some(c"stop"), None, move |args, _| {
        // A forked child has no copy of the thread.
        let Some(end) = end.ours() else { return };
        let channel = channel();
        lock(&channel.state).is_stopping = true;
        channel.filled.notify_one();
        // Nothing is ever sent. The channel closes when the thread ends.
        args.py().detach(|| {
            let _ = lock(end).recv_timeout(MAX_THREAD_WAIT);
        });
    })?;
    py.import("atexit")?.call_method1("register", (stop,)).map(drop)
}

fn run(wake: Wake, ends: Sender<()>) {
    // A thread that an exit handler has started may acquire the GIL when the interpreter ends.
    let _ = guarded(|| {
        Python::try_attach(|py| {
            while let Some(loops) = py.detach(next) {
                for number in loops {
                    // A panic must not end the thread.
                    let _ = guarded(|| {
                        wake(py, number);
                        Ok(())
                    });
                }
            }
        });
        Ok(())
    });
    drop(ends);
}

/// Waits for loops to wake. Returns `None` if the thread must end.
fn next() -> Option<Vec<u64>> {
    let channel = channel();
    let mut state = lock(&channel.state);
    while state.loops.is_empty() && !state.is_stopping {
        state = channel.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    if state.loops.is_empty() {
        state.is_stopping = false;
        state.is_started = false;
        return None;
    }
    Some(std::mem::take(&mut state.loops))
}
