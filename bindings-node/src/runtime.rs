//! Every hazard between Rust's threads and the JavaScript thread, in this file, `inbox` and `wake`.
//!
//! JavaScript gives each call a slot; core's background thread runs its future, and the slot comes back to JavaScript's
//! `settle` with the outcome. Outcomes wait in a queue, and the event loop is woken once per batch, never once per call.
//! All other state belongs to the JavaScript thread alone and needs no lock. There is one `Runtime` per copy of the
//! package: the main thread and each worker has its own, and so has each context that loads it. When a copy is collected
//! or its environment ends, its calls are cancelled, outcomes that nobody will see are dropped (a dropped lease
//! releases), and what it held lives out its ttl.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use futures_util::future::{AbortHandle, abortable};
use napi::bindgen_prelude::{Env, Float64ArraySlice, FnArgs, Function};
use napi_derive::napi;

use crate::calls::{Calls, Ended};
use crate::inbox::{Inbox, Queue};
use crate::lease::Leases;
use crate::lock::Locks;
use crate::log;
use crate::outcome::Outcome;
use crate::rows::{ACQUIRE, LOSS, RELEASE, Row, Rows, WARNING, integers};
use crate::slots::Slots;
use crate::wake::{Callback, Wake};

/// What one environment's JavaScript thread owns.
pub(crate) struct Local {
    pub(crate) env: Env,
    pub(crate) leases: Leases,
    pub(crate) locks: Locks,
    inbox: Arc<Inbox>,
    /// JavaScript's `settle`.
    hearer: Callback,
    rows: Rows,
    /// The unresolved calls: while there are any, the process stays alive, and so does who hears of them.
    unresolved: RefCell<Slots>,
    /// Started with the first call: an import starts no thread.
    calls: OnceCell<Calls>,
    last_number: Cell<u32>,
}

impl Local {
    /// Starts a call that keeps the process alive until it is settled or cancelled.
    pub(crate) fn start<F>(&self, slot: u32, future: F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (future, abort) = abortable(future);
        let ended = async move { future.await.unwrap_or(Outcome::Broken) };
        self.enqueue(slot, ended, Some(abort));
        self.calls().wake();
    }

    /// As `start`, but sent with what comes after it; `abort` is for a call that can be cancelled.
    pub(crate) fn enqueue<F>(&self, slot: u32, future: F, abort: Option<AbortHandle>)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let number = self.number();
        self.calls().enqueue(slot, number, future);
        let mut unresolved = self.unresolved.borrow_mut();
        if unresolved.is_empty() {
            self.inbox.keep(&self.hearer, true);
        }
        unresolved.insert(slot, number, abort);
    }

    /// Waits for the loss of a lease without keeping the process alive; the handle ends it.
    pub(crate) fn watch<F>(&self, lease: u32, lost: F) -> AbortHandle
    where
        F: Future<Output = redlock::Error> + Send + 'static,
    {
        let (lost, abort) = abortable(lost);
        let told =
            async move { lost.await.map_or(Outcome::Done, |error| Outcome::Lost(lease, error)) };
        self.calls().enqueue(0, 0, told);
        self.calls().wake();
        abort
    }

    fn calls(&self) -> &Calls {
        self.calls.get_or_init(|| Calls::new(self.inbox.clone()))
    }

    /// One that no other call, and no other lease, has.
    fn number(&self) -> u32 {
        // 31 bits, and never 0: a lease's number comes back with its sign changed if it is not held any more.
        let number = (self.last_number.get() % 0x7fff_ffff) + 1;
        self.last_number.set(number);
        number
    }

    /// Changes what is waited for; the process may end once that is nothing.
    fn finish<T>(&self, change: impl FnOnce(&mut Slots) -> T) -> T {
        let mut unresolved = self.unresolved.borrow_mut();
        let before = unresolved.is_empty();
        let answer = change(&mut unresolved);
        if !before && unresolved.is_empty() {
            self.inbox.keep(&self.hearer, false);
        }
        answer
    }

    /// Writes the rows, and answers with what goes beside them. Outcomes of cancelled calls are dropped, leases among
    /// them are released by that.
    fn settle(&self, outcomes: VecDeque<Ended>) -> (u32, Vec<Outcome>) {
        let (mut rows, mut beside) = (0, Vec::new());
        for Ended { slot, number, outcome } in outcomes {
            let row = match outcome {
                Outcome::Warning(_) => Row::plain(WARNING.into(), Row::ANSWER),
                Outcome::Lost(lease, _) => Row::plain(LOSS.into(), lease.into()),
                _ if !self.finish(|calls| calls.settle(slot, number)) => continue,
                Outcome::Lease(lease) => {
                    self.write(&mut rows, &self.lease_row(slot, number, lease.into_handle()));
                    continue;
                }
                Outcome::Attached(hold) => {
                    self.write(&mut rows, &self.lease_row(slot, number, hold));
                    continue;
                }
                Outcome::Released(lease) => {
                    self.leases.remove(lease);
                    self.write(&mut rows, &Row::plain(slot.into(), 0.0));
                    continue;
                }
                _ if outcome.is_failure() => Row::plain(slot.into(), Row::FAILURE),
                _ => Row::plain(slot.into(), Row::ANSWER),
            };
            self.write(&mut rows, &row);
            beside.push(outcome);
        }
        (u32::try_from(rows).unwrap_or(u32::MAX), beside)
    }

    fn write(&self, rows: &mut usize, row: &Row) {
        self.rows.write(*rows, row);
        *rows += 1;
    }

    fn lease_row(&self, slot: u32, number: u32, hold: redlock::LeaseHandle) -> Row {
        let valid = hold.held();
        #[allow(
            clippy::cast_precision_loss,
            reason = "microseconds since 1970: exact until the year 2255"
        )]
        let fence = hold.fencing_token().map_or(0.0, |fence| fence as f64);
        let token = integers(hold.token()).unwrap_or_default();
        self.leases.insert(number, hold);
        let value = f64::from(number);
        Row { slot: slot.into(), value: if valid { value } else { -value }, token, fence }
    }

    /// Tells JavaScript of the outcomes that came.
    fn tell(&self, queue: &Queue) {
        // First: the rows are written into memory that it holds.
        let Some(hearer) = self.hearer.get() else {
            self.inbox.desert();
            return pass_on(queue);
        };
        let (outcomes, more) = queue.take(self.rows.room());
        if more {
            self.inbox.wake();
        }
        self.hearer.call(&hearer, FnArgs::from(self.settle(outcomes)));
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.inbox.desert();
    }
}

/// Nobody hears of outcomes here any more; warnings are the process's, another copy of the package shows them.
fn pass_on(queue: &Queue) {
    for ended in queue.take(usize::MAX).0 {
        if let Outcome::Warning(text) = ended.outcome {
            log::warn(text);
        }
    }
}

/// One JavaScript thread's connection to the background thread.
#[napi]
pub struct Runtime {
    pub(crate) local: Rc<Local>,
}

#[napi]
impl Runtime {
    /// `calls` and `outcomes` are rows of numbers; `settle` is called with how many outcomes are there to be read, and
    /// with what goes beside them.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        calls: Float64ArraySlice<'_>,
        outcomes: Float64ArraySlice<'_>,
        #[napi(ts_arg_type = "(rows: number, beside: unknown[]) => void")] settle: Function<
            FnArgs<(u32, Vec<Outcome>)>,
            (),
        >,
    ) -> napi::Result<Self> {
        redlock::ffi::spell_in_camel_case();
        let queue = Arc::new(Queue::default());
        let slot: Rc<RefCell<Weak<Local>>> = Rc::default();
        let (arrived, owner) = (queue.clone(), slot.clone());
        let wake = Wake::new(env, move || match owner.borrow().upgrade() {
            Some(local) => local.tell(&arrived),
            None => pass_on(&arrived),
        })?;
        let inbox = Arc::new(Inbox::new(queue, wake));
        log::forward_to(&inbox);
        let local = Rc::new(Local {
            env,
            leases: Leases::default(),
            locks: Locks::default(),
            inbox,
            hearer: Callback::new(env, &settle)?,
            rows: Rows::new(&calls, &outcomes),
            unresolved: RefCell::default(),
            calls: OnceCell::new(),
            last_number: Cell::new(0),
        });
        *slot.borrow_mut() = Rc::downgrade(&local);
        Ok(Self { local })
    }

    /// Starts the calls in the first rows.
    #[napi(catch_unwind)]
    pub fn send(&self, rows: u32) {
        let local = &self.local;
        for call in (0..rows as usize).map_while(|at| local.rows.call(at)) {
            let begin = || match call.operation {
                ACQUIRE => local.acquire(call.slot, call.of, call.argument),
                RELEASE => local.release(call.slot, call.of),
                _ => local.enqueue(call.slot, async { Outcome::Broken }, None),
            };
            // One that panics must not keep the others from being sent.
            if catch_unwind(AssertUnwindSafe(begin)).is_err() {
                local.enqueue(call.slot, async { Outcome::Broken }, None);
            }
        }
        local.calls().wake();
    }

    /// Stops a call; its slot will not be settled, and no key stays behind. False if it has been settled.
    #[napi(catch_unwind)]
    pub fn cancel(&self, slot: u32) -> bool {
        self.local.finish(|calls| calls.abort(slot))
    }
}
