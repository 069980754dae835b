//! An event loop's end: what its futures come to, on its own thread or in a queue from the background thread.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::ffi::{Begun, Driver};

use super::asked::Asked;
use super::callback::Callback;
use super::calls::{Call, Calls, Kept};
use super::pipe::Woken;
use super::queue::{Item, Queue, Reply, WakeUp};
use super::watch::{CallbackThread, Watch, Word};
use super::{guarded, lock};
use crate::errors::{exception, internal};
use crate::once::intern;

/// The loop's end of the queue: called by the loop when there is something in it.
#[pyclass(frozen, weakref)]
pub(super) struct Completions {
    queue: Arc<Queue>,
    calls: Arc<Calls>,
    driver: Driver<Item>,
    /// It will look when the loop's turn is over.
    flushes: AtomicBool,
    /// The other end of the pipe that wakes the loop.
    woken: Option<Woken>,
    /// Weak, so that it does not keep the loop alive.
    pub(super) event_loop: Py<PyWeakrefReference>,
    /// Its tasks may await futures of ours.
    suits: bool,
    /// Outcomes that are being told of.
    ready: Mutex<VecDeque<Item>>,
}

#[pymethods]
impl Completions {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.look(py)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.calls.traverse(&visit)?;
        visit.call(&self.event_loop)
    }
}

impl Completions {
    /// Of a loop that `wake_up` wakes, at whose other end it finds `woken`.
    pub(super) fn new(
        wake_up: WakeUp,
        woken: Option<Woken>,
        event_loop: Py<PyWeakrefReference>,
        suits: bool,
    ) -> Self {
        let queue = Arc::new(Queue::new(wake_up));
        let done = Arc::clone(&queue);
        // A loop that watches this pipe can watch connections as well.
        let here = woken
            .as_ref()
            .and_then(|woken| Driver::on_loop().filter(|driver| driver.watch(woken.descriptor())));
        let driver = here.unwrap_or_else(|| Driver::start(move |outcomes| done.push(outcomes)));
        let flushes = AtomicBool::new(false);
        let (calls, ready) = Default::default();
        Self { queue, calls, driver, flushes, woken, event_loop, suits, ready }
    }

    /// What the loop is to watch; `None`: it is woken by a thread.
    pub(super) fn descriptor(&self) -> Option<i32> {
        self.driver.descriptor().or_else(|| self.woken.as_ref().map(Woken::descriptor))
    }

    /// Whether the caller has to schedule a flush at the end of the loop's turn. Returns true once per flush.
    pub(super) fn must_flush(&self, begun: Begun<Item>) -> bool {
        if !begun.done.is_empty() {
            self.queue.push(begun.done);
        }
        !begun.written && !self.flushes.swap(true, Ordering::Relaxed)
    }

    /// Takes all completions and resumes the tasks that wait for them. Runs on the loop's thread, in a callback.
    ///
    /// Raises only what is to end the loop.
    pub(super) fn look(&self, py: Python<'_>) -> PyResult<()> {
        self.flushes.store(false, Ordering::Relaxed);
        let (done, rung) = self.driver.look();
        if let Some(woken) = self.woken.as_ref().filter(|_| rung) {
            woken.drain();
        }
        lock(&self.ready).extend(done.into_iter().chain(self.queue.take()));
        let told = self.tell_all(py);
        // What they have asked meanwhile.
        self.driver.flush();
        told
    }

    fn tell_all(&self, py: Python<'_>) -> PyResult<()> {
        // One at a time, because a resumed task may run a nested loop, which takes the others.
        while let Some(item) = take(&self.ready) {
            match guarded(|| self.handle(py, item)) {
                // One that fails must not take the others of its batch with it.
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    error.write_unraisable(py, None);
                }
                Err(error) => {
                    let left = std::mem::take(&mut *lock(&self.ready));
                    self.queue.push(left);
                    return Err(error);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// A future of this loop, for a call's outcome.
    pub(super) fn future<'py>(
        &self,
        event_loop: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.suits {
            return Asked::make(event_loop).map(Bound::into_any);
        }
        event_loop.call_method0(intern!(event_loop.py(), "create_future"))
    }

    /// Runs a future and sets its outcome on `asked`. `convert` runs on the loop's thread.
    ///
    /// With `kept`, the call is stored until the [`Call`] is dropped, otherwise until there is an outcome. Returns the
    /// number of the call, and whether the caller has to schedule a flush at the end of the loop's turn.
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
        self.calls.insert(id, asked, job, kept);
        (id, self.must_flush(self.driver.wake()))
    }

    /// What ends the call of this number.
    pub(super) fn call(&self, id: u64) -> Call {
        Call::of(id, &self.calls)
    }

    /// Where its callbacks are called.
    pub(super) fn callback_thread(&self) -> CallbackThread {
        CallbackThread::Loop(Arc::as_ptr(&self.queue) as usize)
    }

    /// Calls `callback` on the loop when the lease is lost, for as long as the watch lives.
    pub(super) fn watch(
        &self,
        lost: impl Future<Output = redlock::Error> + Send + 'static,
        callback: Callback,
    ) -> Arc<Watch> {
        let queue = Arc::clone(&self.queue);
        let send = move |word| queue.push([Item::Lost(word)]);
        Watch::start(self.callback_thread(), callback, send, |watch| {
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
                // Cancelled: the reply goes unread, and a lease in it is released by that.
                let Some(asked) = self.calls.asked(py, id) else { return Ok(()) };
                answer(asked.bind(py), reply)
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
    if let Ok(ours) = asked.cast::<Asked>() {
        if ours.get().is_done() {
            return Ok(());
        }
        return Asked::settle(ours, guarded(|| reply(py)));
    }
    if asked.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match guarded(|| reply(py)) {
        Ok(value) => asked.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => asked.call_method1(intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

fn take(ready: &Mutex<VecDeque<Item>>) -> Option<Item> {
    lock(ready).pop_front()
}
