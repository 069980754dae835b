//! An event loop's end: what its futures come to, on its own thread or in a queue from the background thread.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use futures_util::FutureExt;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::ffi::{Begun, Driver, Job};

use super::callback::Callback;
use super::pipe::Woken;
use super::queue::{Bell, Item, Queue, Reply};
use super::watch::{Place, Watch, Word};
use super::{guarded, lock};
use crate::errors::{exception, internal};
use crate::once::intern;

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
    /// It will look when the loop's turn is over.
    flushes: AtomicBool,
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
        let queue = Arc::new(Queue::new(bell));
        let done = Arc::clone(&queue);
        // A loop that watches the bell can watch connections as well.
        let here = woken
            .as_ref()
            .and_then(|woken| Driver::on_loop().filter(|driver| driver.watch(woken.descriptor())));
        let driver = here.unwrap_or_else(|| Driver::start(move |outcomes| done.push(outcomes)));
        let flushes = AtomicBool::new(false);
        Self { queue, calls: Arc::default(), driver, woken, flushes, event_loop }
    }

    /// What the loop is to watch; `None`: it is woken by a thread.
    pub(super) fn descriptor(&self) -> Option<i32> {
        self.driver.descriptor().or_else(|| self.woken.as_ref().map(Woken::descriptor))
    }

    /// Whether somebody has to look when the loop's turn is over; told once.
    pub(super) fn must_flush(&self, begun: Begun<Item>) -> bool {
        if !begun.done.is_empty() {
            self.queue.push(begun.done);
        }
        !begun.written && !self.flushes.swap(true, Ordering::Relaxed)
    }

    /// Takes all that there is; on the loop's thread.
    pub(super) fn look(&self, py: Python<'_>) {
        self.flushes.store(false, Ordering::Relaxed);
        let (done, rung) = self.driver.look();
        if let Some(woken) = self.woken.as_ref().filter(|_| rung) {
            woken.drain();
        }
        for item in done.into_iter().chain(self.queue.take()) {
            // One that fails must not take the others of its batch with it.
            if let Err(error) = guarded(|| self.handle(py, item)) {
                error.write_unraisable(py, None);
            }
        }
    }

    /// Has a future run, and `asked` be told of its outcome; `convert` runs on the loop's thread.
    ///
    /// With `kept` until the [`Call`] is dropped, else until there is an outcome. Answers with its number, and whether somebody
    /// has to look when the loop's turn is over.
    pub(super) fn begin<F, C>(
        &self,
        asked: Py<PyAny>,
        kept: Option<Kept>,
        future: F,
        convert: C,
    ) -> (u64, bool)
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
        (id, self.must_flush(self.driver.wake()))
    }

    /// What ends the call of this number.
    pub(super) fn call(&self, id: u64) -> Call {
        Call(id, Arc::downgrade(&self.calls))
    }

    /// Where its callbacks are called.
    pub(super) fn place(&self) -> Place {
        Place::Loop(Arc::as_ptr(&self.queue) as usize)
    }

    /// Calls `callback` on the loop when the lease is lost, for as long as the watch lives.
    pub(super) fn watch(
        &self,
        lost: impl Future<Output = redlock::Error> + Send + 'static,
        callback: Callback,
    ) -> Arc<Watch> {
        let queue = Arc::clone(&self.queue);
        let send = move |word| queue.push([Item::Lost(word)]);
        Watch::start(self.place(), callback, send, |watch| {
            let word = lost.map(move |error| Item::Lost(Word::FromTask(watch, error)));
            let job = self.driver.enqueue_job(word, broken(0));
            // It only listens.
            self.queue.push(self.driver.wake().done);
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
            && let Some((callbacks, error)) = word.arrived(py)
        {
            // Not called here: the loop reports what a callback raises, and the batch goes on.
            for callback in callbacks {
                callback.call_soon(&event_loop, exception(py, &error)?)?;
            }
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
