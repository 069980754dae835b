//! Dispatchers, which run code of the program on native threads: one for log records, and one for `on_lost` callbacks
//! that were registered outside a loop. A log record can wait or be dropped, and a callback cannot, so they share
//! neither a queue nor a thread.
//!
//! A dispatcher has several queues. The jobs of one queue run in order, and a job that blocks delays only its own
//! queue. The first thread is started at first use. While a thread runs jobs, another one waits for those of the other
//! queues, up to a limit. The threads end before the interpreter does.
//!
//! They are native threads, because gevent and eventlet replace `threading.Thread` by greenlets, which would block the
//! only thread.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel as ended};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use redlock::ffi::{Made, PerProcess};

use super::{exit, greenlets, guarded, lock};
use crate::errors::scarce;

/// Logs records, in one queue.
pub(super) static LOG: Dispatcher = Dispatcher::new("redlock-log", 1);
/// Calls `on_lost` callbacks, with one queue for each client.
pub(super) static LOSSES: Dispatcher = Dispatcher::new("redlock-losses", 100);

/// The maximum number of queued jobs that may be dropped.
const MAX_JOBS: usize = 10_000;

/// How long a thread waits for a job before it ends, if another one waits too.
const THREAD_IDLE_TIME: Duration = Duration::from_secs(10);

/// How long queued jobs still run when the interpreter exits.
const QUEUED_JOBS_LIMIT: Duration = Duration::from_secs(1);
/// How long running jobs may take when the interpreter exits. They are code of the program and must not be interrupted.
const RUNNING_JOBS_LIMIT: Duration = Duration::from_secs(4);

/// A job, which runs with the GIL.
pub(super) type Job = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// Reports how many jobs were dropped.
pub(super) type Dropped = fn(Python<'_>, u64) -> PyResult<()>;

/// Threads that run jobs.
pub(super) struct Dispatcher {
    /// The name of its threads.
    name: &'static str,
    max_threads: usize,
    /// A forked child creates a new one, because a thread of the parent may have held the mutex during the fork.
    channel: PerProcess<Channel>,
}

#[derive(Default)]
struct Channel {
    state: Mutex<State>,
    filled: Condvar,
    /// Whether the interpreter is exiting, so that queued jobs are not run any more.
    over: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The queues that have jobs or are being served.
    queues: HashMap<u64, Queue>,
    /// The queues that have jobs and are not being served, in the order of their first jobs.
    ready: VecDeque<u64>,
    threads: usize,
    /// The number of threads that wait for a job.
    waiting: usize,
    /// Each thread has a copy. The channel closes when the last one has ended. `None` before the start and after the
    /// end.
    ends: Option<Sender<()>>,
    is_stopping: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    dropped: Option<(Dropped, u64)>,
    is_served: bool,
}

/// All jobs of a queue at the time when a thread took them.
struct Batch {
    queue: u64,
    jobs: VecDeque<Job>,
    dropped: Option<(Dropped, u64)>,
}

impl State {
    /// Adds a job to a queue. If the queue has no room, counts the job and returns it.
    fn push(&mut self, number: u64, job: Job, room: usize, tell: Option<Dropped>) -> Option<Job> {
        let queue = self.queues.entry(number).or_default();
        match tell {
            Some(tell) if queue.jobs.len() >= room => {
                queue.dropped.get_or_insert((tell, 0)).1 += 1;
                Some(job)
            }
            _ => {
                if queue.jobs.is_empty() && !queue.is_served {
                    self.ready.push_back(number);
                }
                queue.jobs.push_back(job);
                None
            }
        }
    }

    /// Takes the jobs of the next queue.
    fn take(&mut self) -> Option<Batch> {
        let number = self.ready.pop_front()?;
        let queue = self.queues.get_mut(&number)?;
        queue.is_served = true;
        let (jobs, dropped) = (std::mem::take(&mut queue.jobs), queue.dropped.take());
        Some(Batch { queue: number, jobs, dropped })
    }

    /// Records that a thread has run the jobs that it took.
    fn finish(&mut self, number: u64) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        queue.is_served = false;
        if queue.jobs.is_empty() {
            self.queues.remove(&number);
        } else {
            self.ready.push_back(number);
        }
    }
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for jobs, after those of the queue `done`. Returns `None` if the thread must end.
    fn next(&self, done: Option<u64>) -> Option<Batch> {
        let mut state = self.state();
        done.into_iter().for_each(|number| state.finish(number));
        let mut is_late = false;
        loop {
            if let Some(batch) = state.take() {
                return Some(batch);
            }
            let is_spare = state.waiting > 0;
            if state.is_stopping || (is_late && is_spare) {
                state.threads -= 1;
                return None;
            }
            state.waiting += 1;
            (state, is_late) = if is_spare {
                let waited = self.filled.wait_timeout(state, THREAD_IDLE_TIME);
                let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (state, timeout.timed_out())
            } else {
                let waited = self.filled.wait(state);
                (waited.unwrap_or_else(PoisonError::into_inner), false)
            };
            state.waiting -= 1;
        }
    }
}

impl Dispatcher {
    const fn new(name: &'static str, max_threads: usize) -> Self {
        Self { name, max_threads, channel: PerProcess::new() }
    }

    fn channel(&self) -> impl Deref<Target = impl Deref<Target = Channel>> {
        self.channel.get_or_make(Channel::default)
    }

    /// Adds a job to the queue with this number, from any thread. Never waits for the GIL.
    pub(super) fn send(&self, queue: u64, job: Job) {
        self.push(queue, job, usize::MAX, None);
    }

    /// Adds a job if the queue has room. The limit matters if the dispatcher never starts, or if a job blocks.
    ///
    /// Jobs without room are counted, and the count is reported after the jobs in the queue. The limit is
    /// `MAX_JOBS / share`.
    pub(super) fn send_if_room(&self, queue: u64, job: Job, tell: Dropped, share: usize) {
        self.push(queue, job, MAX_JOBS / share, Some(tell));
    }

    fn push(&self, queue: u64, job: Job, room: usize, tell: Option<Dropped>) {
        let channel = self.channel();
        let rejected = channel.state().push(queue, job, room, tell);
        channel.filled.notify_one();
        // Dropped without the lock: a job may hold an exception, whose objects run code that logs.
        drop(rejected);
    }

    /// Starts the first thread. Returns false if it already runs in this process.
    pub(super) fn start(&'static self, py: Python<'_>) -> PyResult<bool> {
        let channel = self.channel();
        let is_started = |state: &State| state.threads > 0 || state.is_stopping;
        if is_started(&channel.state()) {
            return Ok(false);
        }
        // Imported here, because `threading` takes the first thread that imports it for the main thread. A failure
        // leaves the start to the next call.
        py.import("threading")?;
        let (ends, end) = ended();
        {
            let mut state = channel.state();
            if is_started(&state) {
                return Ok(false);
            }
            (state.threads, state.ends) = (1, Some(ends.clone()));
        }
        self.spawn(ends).map_err(|error| {
            let mut state = channel.state();
            (state.threads, state.ends) = (0, None);
            scarce("the thread for logs or callbacks cannot be started", &error)
        })?;
        self.stop_at_exit(py, end)?;
        Ok(true)
    }

    fn spawn(&'static self, ends: Sender<()>) -> std::io::Result<()> {
        let native = std::thread::Builder::new().name(self.name.into());
        native.spawn(move || {
            self.run();
            drop(ends);
        })?;
        Ok(())
    }

    /// Starts another thread if none waits. Without it, the other queues wait for a thread that runs now.
    fn start_another(&'static self) {
        let channel = self.channel();
        let ends = {
            let mut state = channel.state();
            if state.waiting > 0 || state.threads >= self.max_threads {
                return;
            }
            let Some(ends) = state.ends.clone() else { return };
            state.threads += 1;
            ends
        };
        if self.spawn(ends).is_err() {
            channel.state().threads -= 1;
        }
    }

    /// Stops the threads before the interpreter ends, because a thread that then acquires the GIL never returns.
    fn stop_at_exit(&'static self, py: Python<'_>, end: Receiver<()>) -> PyResult<()> {
        let end = Made::new(Mutex::new(end));
        let stop = PyCFunction::new_closure(py, Some(c"stop"), None, move |args, _| {
            let py = args.py();
            exit::wait_for_clean_ups(py);
            let channel = self.channel();
            let ends = {
                let mut state = channel.state();
                state.is_stopping = true;
                state.ends.take()
            };
            drop(ends);
            channel.filled.notify_all();
            // A forked child has no copy of the threads.
            if let Some(end) = end.ours() {
                // Nothing is ever sent. The channel closes when the last thread ends.
                py.detach(|| {
                    let end = lock(end);
                    let _ = end.recv_timeout(QUEUED_JOBS_LIMIT);
                    channel.over.store(true, Ordering::SeqCst);
                    let _ = end.recv_timeout(RUNNING_JOBS_LIMIT);
                });
            }
        })?;
        py.import("atexit")?.call_method1("register", (stop,)).map(drop)
    }

    /// The work of one thread. It takes the GIL only when there are jobs.
    fn run(&'static self) {
        let mut batch = self.next(None);
        if batch.is_none() {
            return;
        }
        Python::try_attach(|py| {
            report(py, self.name_thread(py));
            while let Some(Batch { queue, jobs, dropped }) = batch.take() {
                for job in jobs {
                    if self.channel().over.load(Ordering::SeqCst) {
                        return;
                    }
                    report(py, guarded(|| job(py)));
                }
                if let Some((tell, count)) = dropped {
                    report(py, guarded(|| tell(py, count)));
                }
                batch = py.detach(|| self.next(Some(queue)));
            }
        });
    }

    /// Waits for jobs, and has another thread wait for those of other queues.
    fn next(&'static self, done: Option<u64>) -> Option<Batch> {
        let batch = self.channel().next(done)?;
        self.start_another();
        Some(batch)
    }

    /// Sets the name that `threading.current_thread()` in a callback and lists of threads show.
    fn name_thread(&self, py: Python<'_>) -> PyResult<()> {
        if greenlets::in_use(py)?.is_some() {
            return Ok(());
        }
        let thread = py.import("threading")?.call_method0("current_thread")?;
        thread.setattr("name", self.name)
    }
}

/// Reports the exception of a job, so that it does not stop the others.
fn report(py: Python<'_>, done: PyResult<()>) {
    if let Err(error) = done {
        error.write_unraisable(py, None);
    }
}
