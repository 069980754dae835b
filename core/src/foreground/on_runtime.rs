//! Futures in a runtime of tokio's, which reads by itself what they wait for.
//!
//! One task of that runtime has the reader roles. What its other tasks ask wakes it: it stands behind them in the run queue, so that
//! what they ask in one turn goes out together. It watches one descriptor, and reads when there is something.

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

/// A runtime that reads for its own tasks, for as long as this is there.
pub(crate) struct OnRuntime(Arc<Shared>);

thread_local! {
    /// Whose connections this thread has asked since it wrote last.
    static ASKED: RefCell<Weak<Shared>> = const { RefCell::new(Weak::new()) };
}

/// This thread has asked all that it is going to ask for now, and holds no lock: what a runtime of its own sees to goes out,
/// or will once the others that are about to ask have asked.
pub(crate) fn flush() {
    if let Ok(Some(shared)) = ASKED.try_with(|asked| asked.take().upgrade()) {
        shared.flush();
    }
}

impl OnRuntime {
    /// Starts the task that reads; `None`: the system has no descriptor for it, and all goes as without.
    pub(crate) fn start(runtime: &Handle) -> Result<Option<Arc<Self>>> {
        let Ok(poller) = Poller::new().map(Arc::new) else { return Ok(None) };
        let shared = Arc::new(Shared::of(runtime, Reactor::new(Arc::clone(&poller))));
        // Tokio tells by a panic alone; better here than in the task that reads.
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

    /// A connection was asked. True: the runtime, on whose thread it was, sees to it.
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
            // Once it is driven again, its reader has a turn and says so. Until then the background thread does its work.
            shared.hand_over();
            shared.bell.wake();
            return false;
        }
        let same = |known: &Arc<dyn Way>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(way));
        if !asking.ways.iter().any(same) {
            asking.ways.push(Arc::clone(way) as Arc<dyn Way>);
        }
        // Of several connections at once as of one.
        let more = usize::from(!before.ptr_eq(&this));
        asking.unwritten += more;
        asking.count.0 += more;
        drop(asked);
        // In case the runtime is blocked before it is written, or nobody runs it any more.
        way.supervise();
        // Who asks of several clients at once says of the last one only that it goes out.
        if let Some(other) = before.upgrade().filter(|other| !Arc::ptr_eq(other, shared)) {
            other.bell.wake();
        }
        true
    }
}

/// The client is gone.
impl Drop for OnRuntime {
    fn drop(&mut self) {
        // In a forked child it may be locked for ever.
        if self.0.generation == fork_generation() {
            self.0.end();
            self.0.bell.wake();
        }
    }
}
