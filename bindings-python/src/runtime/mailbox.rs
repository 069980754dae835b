//! An event loop's end of the background thread: replies arrive in a queue, and the loop is woken once per batch.
//!
//! Loops that can watch a file descriptor are woken through a socket pair, by one byte, without the GIL. Others get a
//! `call_soon_threadsafe` from the dispatcher's thread. A mailbox knows its loop by a weak reference only.

use std::collections::HashMap;
use std::future::Future;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyWeakrefReference};
use redlock::ffi::fork_generation;

use super::crew::{Crew, Job};
use super::queue::{Item, Promise, Queue, Reply, Waker};
use super::watch::{Watch, Way, Word};
use super::{dispatch, guarded, lock};
use crate::error::scarce;

/// The asyncio future that a reply is for. Dropping a call ends the future behind it.
struct Call(Py<PyAny>, #[expect(dead_code, reason = "ends the future when dropped")] Job);

/// The loop's end of the queue: called by the loop when there is something in it.
#[pyclass(frozen, weakref)]
pub(crate) struct Mailbox {
    queue: Arc<Queue>,
    /// What replies are expected for, by number.
    calls: Mutex<HashMap<u64, Call>>,
    crew: Crew,
    bell: Option<UnixStream>,
    event_loop: Py<PyWeakrefReference>,
}

struct Slot {
    generation: u32,
    number: u64,
    event_loop: usize,
    mailbox: Py<Mailbox>,
}

static SLOTS: Mutex<Vec<Slot>> = Mutex::new(Vec::new());
static NUMBER: AtomicU64 = AtomicU64::new(1);

#[pymethods]
impl Mailbox {
    fn __call__(&self, py: Python<'_>) {
        if let Some(mut bell) = self.bell.as_ref() {
            let _ = bell.read(&mut [0; 16]);
        }
        for item in self.queue.take() {
            report(py, guarded(|| self.handle(py, item)));
        }
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        if let Ok(calls) = self.calls.try_lock() {
            calls.values().try_for_each(|call| visit.call(&call.0))?;
        }
        visit.call(&self.event_loop)
    }
}

/// One reply that fails must not take the others of its batch with it.
fn report(py: Python<'_>, result: PyResult<()>) {
    if let Err(error) = result {
        error.write_unraisable(py, None);
    }
}

fn settle(future: &Bound<'_, PyAny>, reply: Reply) -> PyResult<()> {
    let py = future.py();
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match guarded(|| reply(py)) {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

impl Mailbox {
    /// The running loop and its mailbox, made at first use.
    fn of_running_loop(py: Python<'_>) -> PyResult<(Bound<'_, PyAny>, Py<Self>)> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?;
        let (generation, address) = (fork_generation(), event_loop.as_ptr() as usize);
        let found = lock(&SLOTS)
            .iter()
            .find(|slot| slot.event_loop == address && slot.generation == generation)
            .map(|slot| slot.mailbox.clone_ref(py));
        let mailbox = match found {
            Some(mailbox) => mailbox,
            None => Self::make(&event_loop)?,
        };
        Ok((event_loop, mailbox))
    }

    fn make(event_loop: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let py = event_loop.py();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let forget = PyCFunction::new_closure(py, None, None, move |_, _| forget(number))?;
        let weak = PyWeakrefReference::new_with(event_loop, forget)?.unbind();
        let (bell, ring) =
            UnixStream::pair().map_err(|error| scarce("an event loop cannot be woken", &error))?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        let watch = |waker, bell| {
            let queue = Queue { items: Mutex::default(), waking: AtomicBool::new(false), waker };
            let queue = Arc::new(queue);
            let pushed = Arc::clone(&queue);
            let crew = Crew::start(move || pushed.ring());
            let (calls, event_loop) = (Mutex::default(), weak.clone_ref(py));
            Py::new(py, Self { queue, calls, crew, bell, event_loop })
        };
        let number_of_bell = bell.as_raw_fd();
        let mut mailbox = watch(Waker::Byte(ring), Some(bell))?;
        if event_loop.call_method1("add_reader", (number_of_bell, &mailbox)).is_err() {
            dispatch::start(py)?;
            mailbox = watch(Waker::Thread(number), None)?;
        }
        let slot = Slot {
            generation: fork_generation(),
            number,
            event_loop: event_loop.as_ptr() as usize,
            mailbox: mailbox.clone_ref(py),
        };
        purge(py, slot)?;
        Ok(mailbox)
    }

    fn expect(&self, call: impl FnOnce(&Crew, Promise) -> Call) {
        let id = NUMBER.fetch_add(1, Ordering::Relaxed);
        let call = call(&self.crew, Promise { queue: Arc::clone(&self.queue), id });
        lock(&self.calls).insert(id, call);
    }

    fn handle(&self, py: Python<'_>, item: Item) -> PyResult<()> {
        match item {
            Item::Lost(word) => self.tell(py, word),
            Item::Reply(id, reply) => {
                let call = lock(&self.calls).remove(&id);
                // Cancelled: the reply goes unread, and a lease in it is released by that.
                let Some(Call(future, _)) = call else { return Ok(()) };
                settle(future.bind(py), reply)
            }
        }
    }

    fn tell(&self, py: Python<'_>, word: Word) -> PyResult<()> {
        if let Some(event_loop) = self.event_loop.bind(py).upgrade()
            && let Some((watch, error)) = word.arrived(py)
        {
            // Not called here: the loop reports what a callback raises, and the batch goes on.
            let error = crate::error::exception(py, &error)?;
            event_loop.call_method1(intern!(py, "call_soon"), (&watch.callback, error))?;
        }
        Ok(())
    }
}

/// Adds a slot; those of closed loops and of the parent of a fork go.
fn purge(py: Python<'_>, slot: Slot) -> PyResult<()> {
    let generation = slot.generation;
    let known: Vec<(u64, u32, Py<Mailbox>)> = {
        let mut slots = lock(&SLOTS);
        slots.push(slot);
        slots
            .iter()
            .map(|slot| (slot.number, slot.generation, slot.mailbox.clone_ref(py)))
            .collect()
    };
    for (number, made_in, mailbox) in known {
        let event_loop = mailbox.get().event_loop.bind(py).upgrade();
        let closed = event_loop
            .map_or(Ok(true), |event_loop| event_loop.call_method0("is_closed")?.is_truthy())?;
        if closed || made_in != generation {
            forget(number);
        }
    }
    Ok(())
}

fn forget(number: u64) {
    let gone: Vec<Slot> = {
        let mut slots = lock(&SLOTS);
        let (gone, kept) = slots.drain(..).partition(|slot| slot.number == number);
        *slots = kept;
        gone
    };
    drop(gone);
}

/// Wakes a loop that cannot watch a file descriptor; on the dispatcher's thread.
pub(super) fn wake(py: Python<'_>, number: u64) -> PyResult<()> {
    let mailbox = lock(&SLOTS)
        .iter()
        .find(|slot| slot.number == number)
        .map(|slot| slot.mailbox.clone_ref(py));
    let Some(mailbox) = mailbox else { return Ok(()) };
    if let Some(event_loop) = mailbox.get().event_loop.bind(py).upgrade() {
        event_loop.call_method1("call_soon_threadsafe", (mailbox,))?;
    }
    Ok(())
}

/// An asyncio future of the running loop for a future on the background thread; `convert` runs on the loop's thread.
pub(crate) fn submit<F, C>(py: Python<'_>, future: F, convert: C) -> PyResult<Bound<'_, PyAny>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    C: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let (event_loop, mailbox) = Mailbox::of_running_loop(py)?;
    let asked = event_loop.call_method0(intern!(py, "create_future"))?;
    mailbox.get().expect(|crew, promise| {
        let job = crew.run(async move {
            let output = future.await;
            promise.keep(Box::new(move |py| convert(py, output)));
        });
        Call(asked.clone().unbind(), job)
    });
    Ok(asked)
}

/// Ends the future behind an asyncio future of this thread's loop.
pub(crate) fn cancel(asked: &Bound<'_, PyAny>) -> PyResult<()> {
    let (_, mailbox) = Mailbox::of_running_loop(asked.py())?;
    let ended = {
        let mut calls = lock(&mailbox.get().calls);
        let id = calls.iter().find(|(_, call)| call.0.is(asked)).map(|(id, _)| *id);
        id.and_then(|id| calls.remove(&id))
    };
    drop(ended);
    Ok(())
}

/// Calls `callback` on the running loop when the lease is lost, for as long as the watch lives.
pub(crate) fn watch(
    py: Python<'_>,
    lost: impl Future<Output = redlock::Error> + Send + 'static,
    callback: Py<PyAny>,
) -> PyResult<Arc<Watch>> {
    let (_, mailbox) = Mailbox::of_running_loop(py)?;
    let Mailbox { queue, crew, .. } = mailbox.get();
    let pushed = Arc::clone(queue);
    Ok(Watch::start(callback, Way::Loop(Arc::clone(queue)), |watch| {
        crew.run(async move { pushed.push(Item::Lost(Word::FromTask(watch, lost.await))) })
    }))
}
