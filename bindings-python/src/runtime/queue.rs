//! Replies on their way from the background thread to an event loop.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use super::watch::Word;
use super::{dispatch, lock};

/// Turns an outcome into a Python object, on the loop's thread. One that is never called releases what it carries.
pub(super) type Reply = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What waits for an event loop.
pub(super) enum Item {
    /// Which call it answers, and with what.
    Reply(u64, Reply),
    Lost(Word),
}

/// The end that any thread may push into.
pub(super) struct Queue {
    pub(super) items: Mutex<Vec<Item>>,
    /// A wake-up is under way that has not looked into the queue yet.
    pub(super) waking: AtomicBool,
    pub(super) waker: Waker,
}

pub(super) enum Waker {
    Byte(UnixStream),
    /// The mailbox's number, for the dispatcher.
    Thread(u64),
}

impl Queue {
    pub(super) fn push(&self, item: Item) {
        lock(&self.items).push(item);
    }

    /// Wakes the loop, unless it is being woken already: after a whole batch was pushed, so that it is handled as one.
    pub(super) fn ring(&self) {
        if lock(&self.items).is_empty() || self.waking.swap(true, Ordering::SeqCst) {
            return;
        }
        match &self.waker {
            // A full pipe has woken the loop already, and a closed one has no loop behind it.
            Waker::Byte(stream) => drop((&*stream).write(&[1])),
            Waker::Thread(mailbox) => dispatch::send(dispatch::Event::Wake(*mailbox)),
        }
    }

    pub(super) fn take(&self) -> Vec<Item> {
        // Before the queue is emptied: what is pushed in between wakes once more, rather than not at all.
        self.waking.store(false, Ordering::SeqCst);
        std::mem::take(&mut *lock(&self.items))
    }
}

/// Replies even if the future panics.
pub(super) struct Promise {
    pub(super) queue: Arc<Queue>,
    pub(super) id: u64,
}

impl Promise {
    pub(super) fn keep(&self, reply: Reply) {
        self.queue.push(Item::Reply(self.id, reply));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep(Box::new(|_| Err(crate::error::internal())));
        }
    }
}
