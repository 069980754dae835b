//! An event loop's end of the background thread: outcomes arrive in a queue, and the loop is woken once per batch.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use futures_util::FutureExt;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::ffi::{self, Driver, Job, fork_generation};

use super::callback::Callback;
use super::pipe::{Ring, Woken};
use super::watch::{Watch, Word};
use super::{guarded, lock};
use crate::errors::{exception, internal};
use crate::once::intern;

/// Turns an outcome into a Python object, on the loop's thread. One that is never called releases what it carries.
type Reply = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What waits for an event loop.
pub(super) enum Item {
    /// Which call it answers, and with what.
    Reply(u64, Reply),
    /// A lease was lost.
    Lost(Word),
}

/// How an event loop is woken.
pub(super) enum Bell {
    /// By one byte, without the GIL.
    Byte(Ring),
    /// By another thread, which this asks to.
    Thread(Box<dyn Fn() + Send + Sync>),
}

/// The end that any thread may push into.
struct Queue {
    items: ffi::Completions<Item>,
    bell: Bell,
    /// Of the process whose loop it is: in a forked child a thread of the parent may hold it for ever.
    generation: u32,
}

impl Queue {
    fn push(&self, items: impl IntoIterator<Item = Item>) {
        if self.generation != fork_generation() {
            return;
        }
        self.items.push(items);
        if !self.items.must_wake() {
            return;
        }
        match &self.bell {
            Bell::Byte(end) => end.ring(),
            Bell::Thread(ring) => ring(),
        }
    }
}

/// What ends with a loop, whoever still has it: an answer that nobody took.
pub(super) type Kept = Arc<dyn Any + Send + Sync>;

/// A call that a reply is expected for. Without its job the future behind it ends.
struct Expected {
    asked: Py<PyAny>,
    _job: Job,
    /// Where there is something to keep, the call is here until it is dropped.
    kept: Option<Kept>,
}

/// By number.
type Calls = Mutex<HashMap<u64, Expected>>;

/// A call under way; dropping it ends the future behind it.
pub(crate) struct Call(u64, Weak<Calls>);

impl Drop for Call {
    fn drop(&mut self) {
        let calls = self.1.upgrade();
        let ended = calls.and_then(|calls| lock(&calls).remove(&self.0));
        drop(ended);
    }
}

/// The loop's end of the queue: called by the loop when there is something in it.
#[pyclass(frozen, weakref)]
pub(super) struct Completions {
    queue: Arc<Queue>,
    calls: Arc<Calls>,
    driver: Driver<Item>,
    /// The other end of its bell.
    woken: Option<Woken>,
    /// Weak, so that it goes when nobody else needs it.
    pub(super) event_loop: Py<PyWeakrefReference>,
}

#[pymethods]
impl Completions {
    fn __call__(&self, py: Python<'_>) {
        self.look(py);
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        if let Ok(calls) = self.calls.try_lock() {
            calls.values().try_for_each(|call| visit.call(&call.asked))?;
        }
        visit.call(&self.event_loop)
    }
}

impl Completions {
    /// Of a loop that `bell` wakes, at whose other end it finds `woken`.
    pub(super) fn new(
        bell: Bell,
        woken: Option<Woken>,
        event_loop: Py<PyWeakrefReference>,
    ) -> Self {
        let queue =
            Arc::new(Queue { items: ffi::Completions::new(), bell, generation: fork_generation() });
        let done = Arc::clone(&queue);
        let driver = Driver::start(move |outcomes| done.push(outcomes));
        Self { queue, calls: Arc::default(), driver, woken, event_loop }
    }

    /// Takes all that there is; on the loop's thread.
    pub(super) fn look(&self, py: Python<'_>) {
        if let Some(woken) = &self.woken {
            woken.drain();
        }
        for item in self.queue.items.take(usize::MAX).0 {
            // One that fails must not take the others of its batch with it.
            if let Err(error) = guarded(|| self.handle(py, item)) {
                error.write_unraisable(py, None);
            }
        }
    }

    /// Has a future run on the background thread, and `asked` be told of its outcome; `convert` runs on the loop's thread.
    ///
    /// With `kept` until the [`Call`] is dropped, else until there is an outcome.
    pub(super) fn begin<F, C>(
        &self,
        asked: Py<PyAny>,
        kept: Option<Kept>,
        future: F,
        convert: C,
    ) -> u64
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        C: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let id = NUMBER.fetch_add(1, Ordering::Relaxed);
        let replied = move |output| Item::Reply(id, Box::new(move |py| convert(py, output)));
        let job = self.driver.enqueue_job(future.map(replied), broken(id));
        // Before it can be answered: that happens on this thread.
        lock(&self.calls).insert(id, Expected { asked, _job: job, kept });
        self.driver.wake();
        id
    }

    /// What ends the call of this number.
    pub(super) fn call(&self, id: u64) -> Call {
        Call(id, Arc::downgrade(&self.calls))
    }

    /// Calls `callback` on the loop when the lease is lost, for as long as the watch lives.
    pub(super) fn watch(
        &self,
        lost: impl Future<Output = redlock::Error> + Send + 'static,
        callback: Callback,
    ) -> Arc<Watch> {
        let queue = Arc::clone(&self.queue);
        let send = move |word| queue.push([Item::Lost(word)]);
        Watch::start(callback, send, |watch| {
            let word = lost.map(move |error| Item::Lost(Word::FromTask(watch, error)));
            let job = self.driver.enqueue_job(word, broken(0));
            self.driver.wake();
            job
        })
    }

    fn handle(&self, py: Python<'_>, item: Item) -> PyResult<()> {
        match item {
            Item::Lost(word) => self.tell(py, word),
            Item::Reply(id, reply) => {
                let found = lock(&self.calls)
                    .get(&id)
                    .map(|call| (call.asked.clone_ref(py), call.kept.is_none()));
                // Cancelled: the reply goes unread, and a lease in it is released by that.
                let Some((asked, over)) = found else { return Ok(()) };
                let over = over.then(|| self.call(id));
                let answered = answer(asked.bind(py), reply);
                drop(over);
                answered
            }
        }
    }

    fn tell(&self, py: Python<'_>, word: Word) -> PyResult<()> {
        if let Some(event_loop) = self.event_loop.bind(py).upgrade()
            && let Some((watch, error)) = word.arrived(py)
        {
            // Not called here: the loop reports what a callback raises, and the batch goes on.
            watch.callback.call_soon(&event_loop, exception(py, &error)?)?;
        }
        Ok(())
    }
}

pub(super) fn make_class(py: Python<'_>) {
    drop(py.get_type::<Completions>());
}

/// The outcome of a future that panicked.
fn broken(id: u64) -> Item {
    Item::Reply(id, Box::new(|_| Err(internal())))
}

fn answer(asked: &Bound<'_, PyAny>, reply: Reply) -> PyResult<()> {
    let py = asked.py();
    if asked.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match guarded(|| reply(py)) {
        Ok(value) => asked.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => asked.call_method1(intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}
