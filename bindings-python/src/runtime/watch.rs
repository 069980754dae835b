//! Calls callbacks for the loss of a lease. Each is called once, even if the lease object is dropped after the loss.
//!
//! While the lease is held, only its object owns the callbacks, so that the garbage collector can free them all. The
//! task that detects the loss sends a message without owning them. If the object is dropped before that message
//! arrives, it sends its callbacks in another message.
//!
//! All callbacks of one thread share one message. With several, a loop could cancel the lease's task at the first one
//! and end before the others arrive.

use std::any::Any;
use std::future::Future;
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlock::Error;
use redlock::ffi::{fork_generation, observe};

use super::dispatcher::LOSSES;
use super::loss_callback::{Callback, Mark};
use super::{guarded, lock, log};
use crate::errors::exception;

/// The callbacks of one thread for the loss of a lease. Dropping it unregisters them.
pub(crate) struct Watch {
    thread: CallbackThread,
    /// `None` once they were called or are about to be.
    callbacks: Mutex<Option<Vec<Callback>>>,
    /// Sends the notification to the thread that calls them.
    send: Box<dyn Fn(LossNotification) + Send + Sync>,
    #[expect(dead_code, reason = "ends the watching when dropped")]
    task: Box<dyn Send + Sync>,
}

/// Which thread calls a callback.
pub(crate) enum CallbackThread {
    /// The dispatcher of the process with this fork generation.
    Dispatcher(u32),
    /// The thread of the loop with this queue. Weak, because the queue owns a socket, and a lease may outlive the loop.
    Loop(Weak<dyn Any + Send + Sync>),
}

/// A notification of a loss for the callbacks.
pub(crate) enum LossNotification {
    /// From the task that detects the loss. The lease object may be gone.
    FromTask(Weak<Watch>, Error),
    /// From the lease object, when it is dropped.
    FromLease(Arc<Watch>, Error),
}

impl CallbackThread {
    /// The thread for callbacks that no loop calls.
    pub(crate) fn dispatcher() -> Self {
        Self::Dispatcher(fork_generation())
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dispatcher(generation), Self::Dispatcher(other)) => generation == other,
            (Self::Loop(queue), Self::Loop(other)) => queue.ptr_eq(other),
            _ => false,
        }
    }

    /// Whether it is a loop that was closed.
    fn is_closed(&self) -> bool {
        matches!(self, Self::Loop(queue) if queue.strong_count() == 0)
    }
}

impl Watch {
    /// `watching` receives the watch and starts waiting for the loss.
    pub(super) fn start<T: Send + Sync + 'static>(
        thread: CallbackThread,
        callback: Callback,
        send: impl Fn(LossNotification) + Send + Sync + 'static,
        watching: impl FnOnce(Weak<Self>) -> T,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak| Self {
            thread,
            callbacks: Mutex::new(Some(vec![callback])),
            send: Box::new(send),
            task: Box::new(watching(weak.clone())),
        })
    }

    /// Adds a callback. Returns it as an error if another thread must call it, or if the callbacks were already called.
    pub(crate) fn add(&self, thread: &CallbackThread, callback: Callback) -> Result<(), Callback> {
        match &mut *lock(&self.callbacks) {
            Some(callbacks) if self.thread.is(thread) => callbacks.push(callback),
            _ => return Err(callback),
        }
        Ok(())
    }

    /// Removes the callback with this mark.
    pub(crate) fn forget(&self, mark: &Mark) {
        let mut callbacks = lock(&self.callbacks);
        let gone: Vec<_> = callbacks
            .iter_mut()
            .flat_map(|known| known.extract_if(.., |callback| callback.has(mark)))
            .collect();
        drop(callbacks);
        // Dropped last, because dropping a callback may run code that calls this module.
        drop(gone);
    }

    /// Whether it has nothing to call any more.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_closed() || lock(&self.callbacks).as_ref().is_none_or(Vec::is_empty)
    }

    /// Called when a lost lease is dropped before its notification has arrived.
    pub(crate) fn outlive(self: Arc<Self>, error: &Error) {
        if lock(&self.callbacks).is_some() {
            let word = LossNotification::FromLease(Arc::clone(&self), error.clone());
            (self.send)(word);
        }
    }

    /// For the garbage collector, for the callbacks that were not called.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(callbacks) = self.callbacks.try_lock() else { return Ok(()) };
        callbacks.iter().flatten().try_for_each(|callback| callback.traverse(visit))
    }
}

impl LossNotification {
    /// Returns the callbacks and the error, for the first notification that arrives. Requires the GIL, so that the
    /// lease object is not dropped meanwhile.
    pub(super) fn arrived(self, _: Python<'_>) -> Option<(Vec<Callback>, Error)> {
        let (watch, error) = match self {
            Self::FromTask(watch, error) => (watch.upgrade()?, error),
            Self::FromLease(watch, error) => (watch, error),
        };
        let callbacks = lock(&watch.callbacks).take()?;
        Some((callbacks, error))
    }
}

/// Calls `callback` on a thread for losses when the lease of this client is lost, for as long as the watch lives.
pub(crate) fn on_dispatcher(
    py: Python<'_>,
    client: u64,
    lost: impl Future<Output = Error> + Send + 'static,
    callback: Callback,
) -> PyResult<Arc<Watch>> {
    LOSSES.start(py)?;
    let send = move |word| send(client, word);
    Ok(Watch::start(CallbackThread::dispatcher(), callback, send, |watch| {
        observe(async move { send(LossNotification::FromTask(watch, lost.await)) })
    }))
}

fn send(client: u64, word: LossNotification) {
    let notify = move |py: Python<'_>| {
        let Some((callbacks, error)) = word.arrived(py) else { return Ok(()) };
        for callback in callbacks {
            let called = || callback.call(py, exception(py, &error)?);
            guarded(called).unwrap_or_else(log::report);
        }
        Ok(())
    };
    LOSSES.send(client, Box::new(notify));
}
