//! A callback for the loss of a lease: called once, whatever becomes of the lease's object after the loss.
//!
//! While the lease is held only its object owns the callback, so that both can be collected. Whoever learns of the loss
//! sends word, without owning it; an object that goes before that word has arrived sends its callbacks along with another.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use pyo3::prelude::*;
use redlock::Error;
use redlock::ffi::spawn;

use super::callback::Callback;
use super::dispatcher;
use crate::errors::exception;

/// A callback for the loss of a lease; dropping it ends the watching.
pub(crate) struct Watch {
    pub(crate) callback: Callback,
    told: AtomicBool,
    /// To the thread that calls it.
    send: Box<dyn Fn(Word) + Send + Sync>,
    #[expect(dead_code, reason = "ends the watching when dropped")]
    task: Box<dyn Send + Sync>,
}

/// Word of a loss, on its way to a callback.
pub(crate) enum Word {
    /// From the task that waits for the loss: the lease's object may be gone.
    FromTask(Weak<Watch>, Error),
    /// From the lease's object, as it goes.
    FromLease(Arc<Watch>, Error),
}

impl Watch {
    /// `watching` is given what the word is to be sent about.
    pub(super) fn start<T: Send + Sync + 'static>(
        callback: Callback,
        send: impl Fn(Word) + Send + Sync + 'static,
        watching: impl FnOnce(Weak<Self>) -> T,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak| Self {
            callback,
            told: AtomicBool::new(false),
            send: Box::new(send),
            task: Box::new(watching(weak.clone())),
        })
    }

    /// Whether the callback was called, or is about to be.
    pub(crate) fn told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// For a lease that was lost and goes, with the word about it still on its way.
    pub(crate) fn outlive(self: Arc<Self>, error: &Error) {
        if !self.told() {
            let word = Word::FromLease(Arc::clone(&self), error.clone());
            (self.send)(word);
        }
    }
}

impl Word {
    /// What to call and with what, for the first word that arrives. With the GIL: the lease's object must not go meanwhile.
    pub(super) fn arrived(self, _: Python<'_>) -> Option<(Arc<Watch>, Error)> {
        let (watch, error) = match self {
            Self::FromTask(watch, error) => (watch.upgrade()?, error),
            Self::FromLease(watch, error) => (watch, error),
        };
        (!watch.told.swap(true, Ordering::AcqRel)).then_some((watch, error))
    }
}

/// Calls `callback` on the dispatcher's thread when the lease is lost, for as long as the watch lives.
pub(crate) fn on_dispatcher(
    py: Python<'_>,
    lost: impl Future<Output = Error> + Send + 'static,
    callback: Callback,
) -> PyResult<Arc<Watch>> {
    dispatcher::start(py)?;
    Ok(Watch::start(callback, send, |watch| {
        spawn(async move { send(Word::FromTask(watch, lost.await)) })
    }))
}

fn send(word: Word) {
    dispatcher::send(Box::new(|py| {
        let Some((watch, error)) = word.arrived(py) else { return Ok(()) };
        watch.callback.call(py, exception(py, &error)?)
    }));
}
