//! The dispatcher: a thread that logs, and calls `on_lost` callbacks registered outside a loop. It is started at first
//! use, and ends before the interpreter does.
//!
//! It is a native thread, because gevent and eventlet replace `threading.Thread` by greenlets, which would block the
//! only thread.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel as ended};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use redlock::ffi::{PerProcess, fork_generation};

use super::{exit, greenlets, guarded, lock};
use crate::errors::scarce;

/// The maximum number of queued jobs that may be dropped.
const MAX_JOBS: usize = 10_000;

/// How long queued jobs still run when the interpreter exits.
const LAST: Duration = Duration::from_secs(1);
/// How long a running job may take when the interpreter exits. It is code of the program and must not be interrupted.
const CURRENT: Duration = Duration::from_secs(4);

/// A job for the dispatcher's thread, which runs with the GIL.
pub(super) type Job = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// Reports how many jobs were dropped.
pub(super) type Dropped = fn(Python<'_>, u64) -> PyResult<()>;

#[derive(Default)]
struct Events {
    /// `None` marks the end of the queue.
    jobs: VecDeque<Option<Job>>,
    dropped: Option<(Dropped, u64)>,
}

#[derive(Default)]
struct Channel {
    events: Mutex<Events>,
    filled: Condvar,
    started: AtomicBool,
    /// Whether the interpreter is exiting, so that queued jobs are not run any more.
    over: AtomicBool,
}

/// A forked child creates a new one, because a thread of the parent may have held the mutex during the fork.
static CHANNEL: PerProcess<Channel> = PerProcess::new();

fn channel() -> impl Deref<Target = impl Deref<Target = Channel>> {
    CHANNEL.get_or_make(Channel::default)
}

/// Queues a job for the dispatcher, from any thread. Never waits for the GIL.
pub(super) fn send(job: Job) {
    leave(Some(job));
}

fn leave(job: Option<Job>) {
    let channel = channel();
    lock(&channel.events).jobs.push_back(job);
    channel.filled.notify_one();
}

/// Sends a job if the queue has room. The limit matters if the dispatcher never starts, or if a job blocks.
///
/// Jobs without room are counted, and the count is reported after the jobs in the queue. The limit is
/// `MAX_JOBS / share`.
pub(super) fn send_if_room(job: Job, tell: Dropped, share: usize) {
    let channel = channel();
    let mut events = lock(&channel.events);
    if events.jobs.len() < MAX_JOBS / share {
        events.jobs.push_back(Some(job));
    } else {
        events.dropped.get_or_insert((tell, 0)).1 += 1;
    }
    channel.filled.notify_one();
}

fn next() -> Events {
    let channel = channel();
    let mut events = lock(&channel.events);
    while events.jobs.is_empty() {
        events = channel.filled.wait(events).unwrap_or_else(PoisonError::into_inner);
    }
    std::mem::take(&mut *events)
}

/// Starts the dispatcher. Returns false if it already runs in this process.
pub(super) fn start(py: Python<'_>) -> PyResult<bool> {
    let ours = channel();
    if ours.started.load(Ordering::Relaxed) {
        return Ok(false);
    }
    // Imported here, because `threading` takes the first thread that imports it for the main thread. A failure leaves
    // the start to the next call.
    py.import("threading")?;
    if ours.started.swap(true, Ordering::SeqCst) {
        return Ok(false);
    }
    let (ends, end) = ended::<()>();
    let native = std::thread::Builder::new().name("redlock-dispatch".into());
    let work = move || {
        Python::try_attach(run);
        drop(ends);
    };
    native.spawn(work).map_err(|error| {
        channel().started.store(false, Ordering::SeqCst);
        scarce("the thread for logs and callbacks cannot be started", &error)
    })?;
    stop_at_exit(py, end)?;
    Ok(true)
}

/// Stops the thread before the interpreter ends, because a thread that then acquires the GIL never returns.
fn stop_at_exit(py: Python<'_>, end: Receiver<()>) -> PyResult<()> {
    let (generation, end) = (fork_generation(), Mutex::new(end));
    let stop = PyCFunction::new_closure(py, Some(c"stop"), None, move |args, _| {
        let py = args.py();
        exit::wait_for_clean_ups(py);
        leave(None);
        // A forked child has no copy of the thread.
        if generation == fork_generation() {
            // Nothing is ever sent. The channel closes when the thread ends.
            py.detach(|| {
                let end = lock(&end);
                let _ = end.recv_timeout(LAST);
                channel().over.store(true, Ordering::SeqCst);
                let _ = end.recv_timeout(CURRENT);
            });
        }
    })?;
    py.import("atexit")?.call_method1("register", (stop,)).map(drop)
}

fn run(py: Python<'_>) {
    report(py, name_thread(py));
    loop {
        let events = py.detach(next);
        for job in events.jobs {
            let Some(job) = job.filter(|_| !channel().over.load(Ordering::SeqCst)) else { return };
            report(py, guarded(|| job(py)));
        }
        if let Some((tell, count)) = events.dropped {
            report(py, guarded(|| tell(py, count)));
        }
    }
}

/// Reports the exception of a job, so that it does not stop the others.
pub(super) fn report(py: Python<'_>, done: PyResult<()>) {
    if let Err(error) = done {
        error.write_unraisable(py, None);
    }
}

/// Sets the name that `threading.current_thread()` in a callback and lists of threads show.
fn name_thread(py: Python<'_>) -> PyResult<()> {
    if greenlets::in_use(py)?.is_some() {
        return Ok(());
    }
    let thread = py.import("threading")?.call_method0("current_thread")?;
    thread.setattr("name", "redlock-dispatch")
}
