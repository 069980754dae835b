//! The dispatcher: a daemon thread of Python's that logs, calls `on_lost` callbacks registered outside a loop, and wakes
//! loops that cannot watch a file descriptor. It is started at first use, and ends before the interpreter does.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};
use redlock::{fork_generation, spawn};

use super::mailbox::{self, Call, Calls};
use super::watch::Watch;
use super::{farewell, guarded, lock, log};

pub(crate) enum Event {
    Log(log::Record),
    Wake(u64),
    Lost(u64, redlock::Error),
    Stop,
}

struct Channel {
    generation: u32,
    events: Mutex<VecDeque<Event>>,
    filled: Condvar,
    started: AtomicBool,
}

static CHANNEL: AtomicPtr<Channel> = AtomicPtr::new(ptr::null_mut());
static CALLS: LazyLock<Arc<Calls>> = LazyLock::new(Arc::default);

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
    // Nobody may ever start the dispatcher: what waits for it must have an end.
    if events.len() < 10_000 {
        events.push_back(event);
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
    log::subscribe(py)?;
    let run = PyCFunction::new_closure(py, Some(c"dispatch"), None, |args, _| run(args.py()))?;
    let options = PyDict::new(py);
    options.set_item("target", run)?;
    options.set_item("name", "redlock-dispatch")?;
    options.set_item("daemon", true)?;
    let thread = py.import("threading")?.call_method("Thread", (), Some(&options))?;
    thread.call_method0("start")?;
    // A thread that asks for the GIL of an interpreter that is gone never returns: end it in time.
    let thread = thread.unbind();
    let stop = PyCFunction::new_closure(py, Some(c"stop"), None, move |args, _| {
        farewell::settle(args.py());
        send(Event::Stop);
        thread.call_method1(args.py(), "join", (1.0,)).map(drop)
    })?;
    py.import("atexit")?.call_method1("register", (stop,))?;
    Ok(())
}

fn run(py: Python<'_>) {
    loop {
        for event in py.detach(next) {
            let done = match event {
                Event::Log(record) => guarded(|| record.emit(py)),
                Event::Wake(number) => guarded(|| mailbox::wake(py, number)),
                Event::Lost(id, error) => guarded(|| tell(py, id, &error)),
                Event::Stop => return,
            };
            if let Err(error) = done {
                error.write_unraisable(py, None);
            }
        }
    }
}

fn tell(py: Python<'_>, id: u64, error: &redlock::Error) -> PyResult<()> {
    let call = lock(&CALLS).remove(&id);
    let Some(Call::Watch(watch)) = call else { return Ok(()) };
    let Some(watch) = watch.upgrade() else { return Ok(()) };
    let error = crate::error::exception(py, error)?;
    watch.callback.call1(py, (error,)).map(drop)
}

/// Calls `callback` on the dispatcher's thread when the lease is lost, for as long as the watch lives.
pub(crate) fn watch(
    py: Python<'_>,
    lost: impl Future<Output = redlock::Error> + Send + 'static,
    callback: Py<PyAny>,
) -> PyResult<Arc<Watch>> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    start(py)?;
    let id = NUMBER.fetch_add(1, Ordering::Relaxed);
    let calls = Arc::downgrade(&CALLS);
    // Its number is known before the future runs; the dispatcher needs the GIL, which we have, to look it up.
    let task = spawn(async move { send(Event::Lost(id, lost.await)) });
    let watch = Arc::new(Watch { callback, calls, id, task: Box::new(task) });
    lock(&CALLS).insert(id, Call::Watch(Arc::downgrade(&watch)));
    Ok(watch)
}
