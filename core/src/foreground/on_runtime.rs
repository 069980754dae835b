//! Futures in a tokio runtime, one task of which writes their commands and reads their replies.
//!
//! That task has the reader roles. The first command of a turn wakes it. It then runs after the tasks that are already in
//! the run queue, so that their commands are written together. It watches one descriptor for replies.

mod reader;
mod shared;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use tokio::runtime::{Handle, is_rt_shutdown_err};

use super::poller::Poller;
use super::reactor::Reactor;
use super::way::Way;
use crate::error::{Error, Result};
use crate::runtime::fork_generation;
use reader::Reader;
use shared::Shared;

const NO_IO: &str = "the runtime has no I/O driver. Build it with enable_io() or enable_all()";
const OVER: &str = "the runtime has shut down. Pass one that runs as long as the client";

/// Reads for the tasks of a runtime until it is dropped.
pub(crate) struct OnRuntime(Arc<Shared>);

thread_local! {
    /// The runtime's state to which this thread has submitted commands since its last write.
    static ASKED: RefCell<Weak<Shared>> = const { RefCell::new(Weak::new()) };
}

/// Writes the submitted commands of this thread's runtime, or lets its task write them with those of other tasks. The
/// caller submits no more for now, and holds no lock.
pub(crate) fn flush() {
    if let Ok(Some(shared)) = ASKED.try_with(|asked| asked.take().upgrade()) {
        shared.flush();
    }
}

impl OnRuntime {
    /// Starts the task. Returns `None` if no descriptor is left, and everything then runs on the background thread.
    pub(crate) fn start(runtime: &Handle) -> Result<Option<Arc<Self>>> {
        let Ok(poller) = Poller::new().map(Arc::new) else { return Ok(None) };
        let shared = Arc::new(Shared::of(runtime, Reactor::new(Arc::clone(&poller))));
        // Tokio panics if the runtime has no I/O driver. This must not happen later, in the task.
        let reader = catch_unwind(AssertUnwindSafe(|| {
            let _inside = runtime.enter();
            Reader::of(Arc::clone(&shared), poller, runtime)
        }));
        match reader.map_err(|_| Error::invalid(NO_IO))? {
            Ok(reader) => drop(runtime.spawn(reader)),
            Err(error) if is_rt_shutdown_err(&error) => return Err(Error::invalid(OVER)),
            Err(_) => return Ok(None),
        }
        Ok(Some(Arc::new(Self(shared))))
    }

    /// Records that a command was submitted to a connection. Returns true if this thread's runtime writes it.
    pub(crate) fn asked<W: Way + 'static>(&self, way: &Arc<W>) -> bool {
        let Self(shared) = self;
        if !shared.is_here() {
            return false;
        }
        let this = Arc::downgrade(shared);
        let before = ASKED.try_with(|asked| asked.replace(Weak::clone(&this))).unwrap_or_default();
        let mut asked = shared.asked();
        let Some(asking) = &mut *asked else { return false };
        if !asking.is_driven() {
            drop(asked);
            // The background thread does the work until the task of the runtime runs again.
            shared.hand_over();
            shared.waker.wake();
            return false;
        }
        let same = |known: &Arc<dyn Way>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(way));
        if !asking.ways.iter().any(same) {
            asking.ways.push(Arc::clone(way) as Arc<dyn Way>);
        }
        // Commands to several connections at once count as one.
        let more = usize::from(!before.ptr_eq(&this));
        asking.unwritten += more;
        asking.count.0 += more;
        drop(asked);
        // The runtime may be blocked before the command is written, or have ended.
        way.supervise();
        // A task that uses several clients at once only flushes the last one.
        if let Some(other) = before.upgrade().filter(|other| !Arc::ptr_eq(other, shared)) {
            other.waker.wake();
        }
        true
    }
}

/// Called when the client is dropped.
impl Drop for OnRuntime {
    fn drop(&mut self) {
        // In a forked child, its mutex may be locked forever.
        if self.0.generation == fork_generation() {
            self.0.end();
            self.0.waker.wake();
        }
    }
}
