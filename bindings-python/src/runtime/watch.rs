//! A callback for the loss of a lease: called once, whatever becomes of the lease's object after the loss.
//!
//! While the lease is held only its object owns the callback, so that both can be collected. Whoever learns of the loss
//! sends word, without owning it; an object that goes before that word has arrived sends its callbacks along with another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use pyo3::prelude::*;
use redlock::Error;

use super::dispatch;
use super::queue::{Item, Queue};

/// A callback for the loss of a lease; dropping it ends the watching.
pub(crate) struct Watch {
    pub(crate) callback: Py<PyAny>,
    told: AtomicBool,
    way: Way,
    #[expect(dead_code, reason = "ends the watching when dropped")]
    task: Box<dyn Send + Sync>,
}

/// Who calls it.
pub(super) enum Way {
    Dispatcher,
    Loop(Arc<Queue>),
}

/// Word of a loss, on its way to a callback.
pub(crate) enum Word {
    FromTask(Weak<Watch>, Error),
    FromLease(Arc<Watch>, Error),
}

impl Watch {
    /// `watching` is given what the word is to be sent about.
    pub(super) fn start<T: Send + Sync + 'static>(
        callback: Py<PyAny>,
        way: Way,
        watching: impl FnOnce(Weak<Self>) -> T,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak| Self {
            callback,
            told: AtomicBool::new(false),
            way,
            task: Box::new(watching(weak.clone())),
        })
    }

    /// Whether the callback was called, or is about to be.
    pub(crate) fn told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// For a lease that was lost and goes, with the word about it still on its way.
    pub(crate) fn outlive(self: Arc<Self>, error: &Error) {
        if self.told() {
            return;
        }
        let word = |watch| Word::FromLease(watch, error.clone());
        match &self.way {
            Way::Dispatcher => dispatch::send(dispatch::Event::Lost(word(self))),
            Way::Loop(queue) => {
                let queue = Arc::clone(queue);
                queue.push(Item::Lost(word(self)));
                queue.ring();
            }
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
