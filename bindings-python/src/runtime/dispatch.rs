//! The dispatcher: a thread that logs, calls `on_lost` callbacks registered outside a loop, and wakes loops that cannot
//! watch a file descriptor. It is started at first use, and ends before the interpreter does.
//!
//! A native thread: what gevent and eventlet make of a `threading.Thread` would hold up the one thread there is.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel as ended};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use redlock::ffi::{fork_generation, spawn};

use super::watch::{Watch, Way, Word};
use super::{farewell, greenlets, guarded, lock, log, mailbox};
use crate::error::scarce;

pub(crate) enum Event {
    Log(log::Record),
    Wake(u64),
    Lost(Word),
    Stop,
}

struct Channel {
    generation: u32,
    events: Mutex<VecDeque<Event>>,
    filled: Condvar,
    /// Log records that found no room since the last one that did.
    dropped: AtomicU64,
    started: AtomicBool,
}

/// How many log records may wait for the dispatcher.
const ROOM: usize = 10_000;

static CHANNEL: AtomicPtr<Channel> = AtomicPtr::new(ptr::null_mut());

/// This process's channel. A forked child gets another one: a thread of the parent may hold the old one's mutex for ever.
fn channel() -> &'static Channel {
    let generation = fork_generation();
    let current = CHANNEL.load(Ordering::Acquire);
    // SAFETY: a channel is leaked once it is stored, so that a pointer to it stays good.
    if let Some(channel) = unsafe { current.as_ref() }
        && channel.generation == generation
    {
        return channel;
    }
    let made = Box::into_raw(Box::new(Channel {
        generation,
        events: Mutex::default(),
        filled: Condvar::new(),
        dropped: AtomicU64::new(0),
        started: AtomicBool::new(false),
    }));
    if CHANNEL.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: it was not stored, so nobody else knows it.
        drop(unsafe { Box::from_raw(made) });
    }
    channel()
}

/// Leaves an event for the dispatcher; from any thread, never blocking on Python.
pub(crate) fn send(event: Event) {
    let channel = channel();
    let mut events = lock(&channel.events);
    // Nobody may ever start the dispatcher, and a handler may block: logs that wait for it must have an end. Word of a
    // loss is promised to whoever registered for it.
    if events.len() < ROOM || !matches!(event, Event::Log(_)) {
        events.push_back(event);
    } else {
        channel.dropped.fetch_add(1, Ordering::Relaxed);
    }
    channel.filled.notify_one();
}

fn next() -> VecDeque<Event> {
    let channel = channel();
    let mut events = lock(&channel.events);
    while events.is_empty() {
        events = channel.filled.wait(events).unwrap_or_else(PoisonError::into_inner);
    }
    std::mem::take(&mut *events)
}

/// Starts the dispatcher, unless this process has it already.
pub(crate) fn start(py: Python<'_>) -> PyResult<()> {
    if channel().started.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    // Here, since whichever thread is the first to import it is the main thread to it.
    py.import("threading")?;
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
    log::subscribe(py)?;
    stop_at_exit(py, end)
}

/// A thread that asks for the GIL of an interpreter that is gone never returns: it is ended in time.
fn stop_at_exit(py: Python<'_>, end: Receiver<()>) -> PyResult<()> {
    let (generation, end) = (fork_generation(), Mutex::new(end));
    let stop = PyCFunction::new_closure(py, Some(c"stop"), None, move |args, _| {
        let py = args.py();
        farewell::settle(py);
        send(Event::Stop);
        // A forked child has no copy of the thread.
        if generation == fork_generation() {
            // Nothing is ever sent: this ends with the thread.
            let _ = py.detach(|| lock(&end).recv_timeout(Duration::from_secs(1)));
        }
    })?;
    py.import("atexit")?.call_method1("register", (stop,)).map(drop)
}

fn run(py: Python<'_>) {
    if let Err(error) = name_thread(py) {
        error.write_unraisable(py, None);
    }
    loop {
        let events = py.detach(next);
        let dropped = channel().dropped.swap(0, Ordering::Relaxed);
        let told = (dropped > 0).then(|| Event::Log(log::Record::of_dropped(dropped)));
        for event in events.into_iter().chain(told) {
            let done = match event {
                Event::Log(record) => guarded(|| record.emit(py)),
                Event::Wake(number) => guarded(|| mailbox::wake(py, number)),
                Event::Lost(word) => guarded(|| tell(py, word)),
                Event::Stop => return,
            };
            if let Err(error) = done {
                error.write_unraisable(py, None);
            }
        }
    }
}

/// For `threading.current_thread()` in a callback, and for whoever lists the threads.
fn name_thread(py: Python<'_>) -> PyResult<()> {
    if greenlets::in_use(py)?.is_some() {
        return Ok(());
    }
    let thread = py.import("threading")?.call_method0("current_thread")?;
    thread.setattr("name", "redlock-dispatch")
}

fn tell(py: Python<'_>, word: Word) -> PyResult<()> {
    let Some((watch, error)) = word.arrived(py) else { return Ok(()) };
    let error = crate::error::exception(py, &error)?;
    watch.callback.call1(py, (error,)).map(drop)
}

/// Calls `callback` on the dispatcher's thread when the lease is lost, for as long as the watch lives.
pub(crate) fn watch(
    py: Python<'_>,
    lost: impl Future<Output = redlock::Error> + Send + 'static,
    callback: Py<PyAny>,
) -> PyResult<Arc<Watch>> {
    start(py)?;
    Ok(Watch::start(callback, Way::Dispatcher, |watch| {
        spawn(async move { send(Event::Lost(Word::FromTask(watch, lost.await))) })
    }))
}
