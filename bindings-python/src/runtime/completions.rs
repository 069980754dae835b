//! Delivers the results of futures to an event loop, and resumes the tasks that await them.
//!
//! If the loop can watch the connections, its thread runs the futures and reads the replies. Otherwise the background
//! thread does, and its results arrive through a queue.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::ffi::Driver;

use super::loop_future::LoopFuture;
use super::loss_callback::Callback;
use super::pending_calls::{Call, CallData, PendingCalls};
use super::pipe::Woken;
use super::queue::{Item, Queue, Reply, WakeUp};
use super::watch::{CallbackThread, LossNotification, Watch};
use super::{guarded, lock};
use crate::errors::{exception, internal};
use crate::once_cell::intern;

/// The receiving end of the queue. The loop calls it when the queue has items.
#[pyclass(frozen, weakref)]
pub(super) struct Completions {
    queue: Arc<Queue>,
    calls: Arc<PendingCalls>,
    driver: Driver<Item>,
    /// Whether a flush is scheduled at the end of the current loop iteration.
    flushes: AtomicBool,
    /// The receiving end of the pipe that wakes the loop.
    woken: Option<Woken>,
    /// Weak, so that it does not keep the loop alive.
    pub(super) event_loop: Py<PyWeakrefReference>,
    /// Whether its tasks can await [`LoopFuture`] futures.
    suits: bool,
    /// Results that are being delivered.
    ready: Mutex<VecDeque<Item>>,
}

#[pymethods]
impl Completions {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.resume_tasks(py)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.calls.traverse(&visit)?;
        visit.call(&self.event_loop)
    }
}

impl Completions {
    /// Creates the completions of a loop. `wake_up` wakes it, and `woken` is the other end of that pipe.
    pub(super) fn new(
        wake_up: WakeUp,
        woken: Option<Woken>,
        event_loop: Py<PyWeakrefReference>,
        suits: bool,
    ) -> Self {
        let queue = Arc::new(Queue::new(wake_up));
        let dependent = Arc::downgrade(&queue);
        redlock::ffi::depend(dependent);
        let done = Arc::clone(&queue);
        // A loop that can watch this pipe can also watch connections.
        let here = woken
            .as_ref()
            .and_then(|woken| Driver::on_loop().filter(|driver| driver.watch(woken.descriptor())));
        let driver = here.unwrap_or_else(|| Driver::start(move |outcomes| done.push(outcomes)));
        let flushes = AtomicBool::new(false);
        let (calls, ready) = Default::default();
        Self { queue, calls, driver, flushes, woken, event_loop, suits, ready }
    }

    /// Whether these are the completions of this loop.
    pub(super) fn is_of(&self, event_loop: &Bound<'_, PyAny>) -> bool {
        let own = self.event_loop.bind(event_loop.py()).upgrade();
        own.is_some_and(|own| own.is(event_loop))
    }

    /// The descriptor that the loop must watch, or `None` if a thread wakes the loop.
    pub(super) fn descriptor(&self) -> Option<i32> {
        self.driver.descriptor().or_else(|| self.woken.as_ref().map(Woken::descriptor))
    }

    /// Whether the caller must schedule a flush at the end of the loop iteration. Returns true once per flush.
    pub(super) fn must_flush(&self, done: Vec<Item>, written: bool) -> bool {
        if !done.is_empty() {
            self.queue.push(done);
        }
        !written && !self.flushes.swap(true, Ordering::Relaxed)
    }

    /// Takes all completions and resumes the tasks that wait for them. Runs on the loop's thread, in a callback.
    ///
    /// Raises only exceptions that end the loop.
    pub(super) fn resume_tasks(&self, py: Python<'_>) -> PyResult<()> {
        self.flushes.store(false, Ordering::Relaxed);
        let (done, rung) = self.driver.read_available();
        if let Some(woken) = self.woken.as_ref().filter(|_| rung) {
            woken.drain();
        }
        lock(&self.ready).extend(done.into_iter().chain(self.queue.take()));
        let delivered = self.deliver_all(py);
        // Sends the commands that resumed tasks have queued in the meantime.
        self.driver.flush();
        delivered
    }

    fn deliver_all(&self, py: Python<'_>) -> PyResult<()> {
        // One at a time, because a resumed task may run a nested loop, which takes the others.
        while let Some(item) = take(&self.ready) {
            match guarded(|| self.handle(py, item)) {
                // A failing item must not stop the others of its batch.
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

    /// Creates a future of this loop for the result of a call.
    pub(super) fn future<'py>(
        &self,
        event_loop: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.suits {
            return LoopFuture::make(event_loop).map(Bound::into_any);
        }
        event_loop.call_method0(intern!(event_loop.py(), "create_future"))
    }

    /// Runs a future and sets its outcome on `loop_future`. `convert` runs on the loop's thread.
    ///
    /// With `kept`, the call is stored until the [`Call`] is dropped, otherwise until there is an outcome. Returns the
    /// number of the call, and whether the caller has to schedule a flush at the end of the loop's turn.
    pub(super) fn run<F, C>(
        &self,
        loop_future: Py<PyAny>,
        kept: Option<CallData>,
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
        // Registered before a reply can be delivered, which happens on this thread.
        self.calls.insert(id, loop_future, job, kept);
        let (done, written) = self.driver.wake();
        (id, self.must_flush(done, written))
    }

    /// Returns the handle that cancels the call with this number.
    pub(super) fn call(&self, id: u64) -> Call {
        Call::new(id, &self.calls)
    }

    /// The thread that calls callbacks of this loop.
    pub(super) fn callback_thread(&self) -> CallbackThread {
        CallbackThread::Loop(Arc::<Queue>::downgrade(&self.queue))
    }

    /// Calls `callback` on the loop when the lease is lost, for as long as the watch lives.
    pub(super) fn watch(
        &self,
        lost: impl Future<Output = redlock::Error> + Send + 'static,
        callback: Callback,
    ) -> Arc<Watch> {
        let queue = Arc::downgrade(&self.queue);
        let send = move |notification| {
            if let Some(queue) = queue.upgrade() {
                queue.push([Item::Lost(notification)]);
            }
        };
        Watch::start(self.callback_thread(), callback, send, |watch| {
            let lost = lost.map(move |error| Item::Lost(LossNotification::FromTask(watch, error)));
            let job = self.driver.enqueue_job(lost, broken(0));
            // It sends no commands, so no flush is needed.
            self.queue.push(self.driver.wake().0);
            job
        })
    }

    fn handle(&self, py: Python<'_>, item: Item) -> PyResult<()> {
        match item {
            Item::Lost(notification) => self.notify(py, notification),
            Item::Reply(id, reply) => {
                // The call was cancelled. Dropping the reply releases a lease in it.
                let Some(loop_future) = self.calls.loop_future(py, id) else { return Ok(()) };
                settle(loop_future.bind(py), reply)
            }
        }
    }

    fn notify(&self, py: Python<'_>, notification: LossNotification) -> PyResult<()> {
        if let Some(event_loop) = self.event_loop.bind(py).upgrade()
            && let Some((callbacks, error)) = notification.arrived(py)
        {
            // Scheduled and not called here, so that the loop reports exceptions of callbacks and the batch continues.
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

/// The result of a future that panicked.
fn broken(id: u64) -> Item {
    Item::Reply(id, Box::new(|_| Err(internal())))
}

/// Sets the outcome of a future, which is a [`LoopFuture`] or the loop's own, unless it was cancelled.
fn settle(loop_future: &Bound<'_, PyAny>, reply: Reply) -> PyResult<()> {
    let py = loop_future.py();
    if let Ok(ours) = loop_future.cast::<LoopFuture>() {
        if ours.get().is_done() {
            return Ok(());
        }
        return LoopFuture::settle(ours, guarded(|| reply(py)));
    }
    if loop_future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match guarded(|| reply(py)) {
        Ok(value) => loop_future.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => loop_future.call_method1(intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

fn take(ready: &Mutex<VecDeque<Item>>) -> Option<Item> {
    lock(ready).pop_front()
}
