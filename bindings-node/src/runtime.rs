//! Every hazard between Rust's threads and the JavaScript thread, in one file.
//!
//! A call starts a future on core's background thread and answers with a number; the number comes back to JavaScript's
//! `settle` with the outcome. Outcomes wait in a queue, and the event loop is woken once per batch, never once per call.
//! All other state belongs to the JavaScript thread alone and needs no lock. There is one `Runtime` per environment
//! (the main thread and each worker has its own); when an environment ends, its calls are cancelled, outcomes that nobody
//! will see are dropped (a dropped lease releases), and what it held lives out its ttl.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::AbortHandle;
use napi::bindgen_prelude::{Env, FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Status, sys};
use napi_derive::napi;

use crate::calls::Calls;
use crate::lease::Leases;
use crate::log;
use crate::outcome::{Batch, Outcome};

/// Wakes the event loop. Weak: it does not keep the process alive by itself.
type Wake = ThreadsafeFunction<(), (), FnArgs<(Batch,)>, Status, false, true>;

/// Outcomes on their way to one JavaScript thread.
#[derive(Default)]
struct Queue {
    outcomes: Mutex<Vec<(u32, Outcome)>>,
    /// A wake-up is under way that has not looked into the queue yet.
    waking: AtomicBool,
}

impl Queue {
    fn outcomes(&self) -> MutexGuard<'_, Vec<(u32, Outcome)>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<(u32, Outcome)> {
        // Before the queue is emptied: what is pushed in between wakes once more, rather than not at all.
        self.waking.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.outcomes())
    }
}

/// The end of the queue that any thread may push into.
pub(crate) struct Inbox {
    queue: Arc<Queue>,
    wake: Wake,
}

impl Inbox {
    pub(crate) fn push(&self, outcomes: Vec<(u32, Outcome)>) {
        if outcomes.is_empty() {
            return;
        }
        self.queue.outcomes().extend(outcomes);
        if self.queue.waking.swap(true, Ordering::SeqCst) {
            return;
        }
        if self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            // The environment has ended: nobody will see these.
            drop(self.queue.take());
        }
    }

    pub(crate) fn alive(&self) -> bool {
        !self.wake.aborted()
    }
}

/// What one environment's JavaScript thread owns.
pub(crate) struct Local {
    pub(crate) env: Env,
    pub(crate) leases: Leases,
    inbox: Arc<Inbox>,
    /// The unresolved calls: while there are any, the process stays alive.
    unresolved: RefCell<HashMap<u32, AbortHandle>>,
    /// Started with the first call: an import starts no thread.
    calls: OnceCell<Calls>,
    last_id: Cell<u32>,
}

impl Local {
    /// Starts a call that keeps the process alive until it is settled or cancelled.
    pub(crate) fn start<F>(&self, future: F) -> u32
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (id, handle) = self.watch(future);
        let mut unresolved = self.unresolved.borrow_mut();
        if unresolved.is_empty() {
            self.keep_alive(true);
        }
        unresolved.insert(id, handle);
        id
    }

    /// Starts a call that does not keep the process alive; the handle ends it.
    pub(crate) fn watch<F>(&self, future: F) -> (u32, AbortHandle)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        // 31 bits: `settle` gets a failure's number with its sign changed. 0 is a warning.
        let id = (self.last_id.get() % 0x7fff_ffff) + 1;
        self.last_id.set(id);
        let calls = self.calls.get_or_init(|| Calls::new(self.inbox.clone()));
        (id, calls.start(id, future))
    }

    /// The call is no longer waited for; nothing if it was not.
    fn finish(&self, id: u32) -> Option<AbortHandle> {
        let mut unresolved = self.unresolved.borrow_mut();
        let call = unresolved.remove(&id)?;
        if unresolved.is_empty() {
            self.keep_alive(false);
        }
        Some(call)
    }

    /// What to hand to JavaScript; outcomes of cancelled calls are dropped, leases among them are released by that.
    fn settle(&self, outcomes: Vec<(u32, Outcome)>) -> Batch {
        let wanted = |(id, outcome): (u32, Outcome)| {
            let outcome = (outcome.is_unasked() || self.finish(id).is_some()).then_some(outcome)?;
            if let Outcome::Lease(lease) = outcome {
                let held = lease.held();
                self.leases.insert(id, lease.into_hold());
                return Some((id, Outcome::Yes(held)));
            }
            if let Outcome::Released(lease) = outcome {
                self.leases.remove(lease);
            }
            Some((id, outcome))
        };
        Batch(outcomes.into_iter().filter_map(wanted).collect())
    }

    fn keep_alive(&self, on: bool) {
        let raw = self.inbox.wake.raw();
        // SAFETY: called on the JavaScript thread; the handle lives as long as `wake`, which is not closed before its environment.
        let status = unsafe {
            if on {
                sys::napi_ref_threadsafe_function(self.env.raw(), raw)
            } else {
                sys::napi_unref_threadsafe_function(self.env.raw(), raw)
            }
        };
        debug_assert_eq!(status, sys::Status::napi_ok);
    }
}

/// One JavaScript thread's connection to the background thread.
#[napi]
pub struct Runtime {
    pub(crate) local: Rc<Local>,
}

#[napi]
impl Runtime {
    /// `settle` gets a flat array of numbers and outcomes: `id, outcome` on success, `-id, failure` otherwise, `0, text` for a warning.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        #[napi(ts_arg_type = "(batch: unknown[]) => void")] settle: Function<FnArgs<(Batch,)>, ()>,
    ) -> napi::Result<Self> {
        let queue = Arc::new(Queue::default());
        let slot: Rc<RefCell<Weak<Local>>> = Rc::default();
        let (drained, owner) = (queue.clone(), slot.clone());
        let wake = settle
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .callee_handled::<false>()
            .build_callback(move |_| {
                let outcomes = drained.take();
                let owner = owner.borrow().upgrade();
                let settle = || owner.map(|local| local.settle(outcomes)).unwrap_or_default();
                let batch = catch_unwind(AssertUnwindSafe(settle)).unwrap_or_default();
                Ok(FnArgs::from((batch,)))
            })?;
        let inbox = Arc::new(Inbox { queue, wake });
        log::forward_to(&inbox);
        let local = Rc::new(Local {
            env,
            leases: Leases::default(),
            inbox,
            unresolved: RefCell::default(),
            calls: OnceCell::new(),
            last_id: Cell::new(0),
        });
        *slot.borrow_mut() = Rc::downgrade(&local);
        Ok(Self { local })
    }

    /// While `on`, calls are gathered; what was gathered before is sent now. A call outside is sent at once.
    #[napi(catch_unwind)]
    pub fn gather(&self, on: bool) {
        if let Some(calls) = self.local.calls.get() {
            calls.gather(on);
        }
    }

    /// Stops a call; its number will not be settled. No key stays behind.
    #[napi(catch_unwind)]
    pub fn cancel(&self, id: u32) {
        if let Some(call) = self.local.finish(id) {
            call.abort();
        }
    }
}
