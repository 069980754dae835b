//! What one JavaScript thread owns, and the calls that it waits for.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::Weak;
use std::sync::Arc;

use futures_util::FutureExt;
use napi::bindgen_prelude::Env;
use redlock::Redlock;
use redlock::ffi::{self, Acquire, Answer, DefaultClient};
use slab::Slab;

use super::event_loop::EventLoop;
use super::host::Host;
use super::turn::Turns;
use super::wake::Callback;
use crate::batch::Batch;
use crate::held::Held;
use crate::number::Number;
use crate::outcome::{Ended, Outcome};
use crate::pending::{Call, Pending};

/// What one environment's JavaScript thread owns.
pub(crate) struct Local {
    /// Where exceptions go.
    pub(crate) env: Env,
    me: Weak<Self>,
    /// The leases that JavaScript can name by a number.
    pub(crate) held: Held,
    /// The options of locks that JavaScript can name by a number: a lock that has them.
    pub(crate) option_sets: RefCell<Slab<redlock::Lock>>,
    /// Calls and outcomes cross over in it.
    pub(crate) batch: Batch,
    /// Of locks that name no client.
    pub(crate) default_client: DefaultClient<Redlock>,
    /// Where outcomes wait.
    pub(super) event_loop: Arc<EventLoop>,
    /// JavaScript's `settle`.
    pub(super) hearer: Callback,
    /// The unresolved calls: while there are any, the process stays alive, and so does who hears of them.
    pending: RefCell<Pending>,
    /// The acquires whose leases JavaScript was told of last: it hands them out one after the other, and may be late.
    pub(super) delivered: RefCell<Vec<(Number, Acquire)>>,
    /// Started with the first call: an import starts no thread.
    host: OnceCell<Host>,
    /// Where this thread's event loop can be had to watch connections.
    turns: Option<Turns>,
    /// The loop's turn is ours: what is waited for may change many times until it is over.
    in_turn: Cell<bool>,
    last_number: Cell<Number>,
    /// What JavaScript was asked and has not answered.
    pub(super) questions: RefCell<Slab<Answer>>,
}

impl Local {
    /// Nothing is under way.
    pub(super) fn new(
        env: Env,
        me: Weak<Self>,
        batch: Batch,
        event_loop: Arc<EventLoop>,
        hearer: Callback,
        turns: Option<Turns>,
    ) -> Self {
        Self {
            env,
            me,
            held: Held::default(),
            option_sets: RefCell::default(),
            batch,
            default_client: DefaultClient::new(),
            event_loop,
            hearer,
            pending: RefCell::default(),
            delivered: RefCell::default(),
            host: OnceCell::new(),
            turns,
            in_turn: Cell::new(false),
            last_number: Cell::new(0),
            questions: RefCell::default(),
        }
    }

    /// Starts a call that keeps the process alive until it is settled or cancelled.
    pub(crate) fn start<F>(&self, slot: u32, future: F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.job(slot, future, None);
        self.wake();
    }

    /// Starts an acquire, or asks once more; sent by `wake`.
    pub(crate) fn ask(&self, slot: u32, acquire: Acquire) {
        self.job(slot, acquire.ask().map(Outcome::Acquired), Some(acquire));
    }

    /// As `start`, but it cannot be cancelled, and is sent by `wake`.
    pub(crate) fn enqueue<F>(&self, slot: u32, future: F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let number = self.number();
        let ended = move |outcome| Ended { slot, number, outcome };
        self.host().driver.enqueue(future.map(ended), ended(Outcome::Broken));
        self.expect(slot, Call { number, job: None, acquire: None });
    }

    fn job<F>(&self, slot: u32, future: F, acquire: Option<Acquire>)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let number = self.number();
        let ended = move |outcome| Ended { slot, number, outcome };
        let job = self.host().driver.enqueue_job(future.map(ended), ended(Outcome::Broken));
        self.expect(slot, Call { number, job: Some(job), acquire });
    }

    fn expect(&self, slot: u32, call: Call) {
        self.change(|pending| pending.insert(slot, call));
    }

    /// Sends what was enqueued.
    pub(crate) fn wake(&self) {
        let done = self.host().begin();
        if !done.is_empty() {
            // Not told at once: JavaScript is in the middle of a call.
            self.event_loop.push(done);
        }
    }

    /// From here on, until the answer is dropped, what is asked is left to this thread's own loop, which `wake` has it sent by.
    pub(crate) fn asks(&self) -> Option<impl Sized + use<>> {
        self.host().is_here().then(ffi::about_to_ask)
    }

    /// Waits for the loss of a lease without keeping the process alive, for as long as it is held.
    pub(crate) fn watch<F>(&self, lease: Number, lost: F)
    where
        F: Future<Output = redlock::Error> + Send + 'static,
    {
        let ended = |outcome| Ended { slot: 0, number: 0, outcome };
        let lost = lost.map(move |error| ended(Outcome::Lost(lease, error)));
        let job = self.host().driver.enqueue_job(lost, ended(Outcome::Done));
        self.held.watch(lease, job);
        self.wake();
    }

    /// Nobody waits for the call of this slot any more; false if nobody did.
    pub(crate) fn cancel(&self, slot: u32) -> bool {
        let cancelled = self.change(|calls| calls.cancel(slot));
        if cancelled && self.host().is_here() {
            // What it was granted is given back now: the process may end before the loop's next turn.
            self.wake();
        }
        cancelled
    }

    fn host(&self) -> &Host {
        self.host.get_or_init(|| {
            let look = self.me.clone();
            let look = move || look.upgrade().into_iter().for_each(|local| local.look());
            let here = self.turns.as_ref().and_then(|turns| Host::here(turns.uv, self.env, look));
            here.unwrap_or_else(|| Host::elsewhere(Arc::clone(&self.event_loop)))
        })
    }

    /// This thread's loop has something to read.
    fn look(&self) {
        let done = self.host().driver.look().0;
        if let Some(turns) = self.turns.as_ref().filter(|_| !done.is_empty()) {
            self.event_loop.add(done);
            let _turn = self.turn();
            turns.run(|| self.tell());
        }
    }

    /// Until what this gives is dropped nobody asks whether the process is to be kept.
    fn turn(&self) -> impl Drop + '_ {
        self.in_turn.set(true);
        Defer(|| {
            self.in_turn.set(false);
            self.keep();
        })
    }

    /// Leaves an outcome for this thread, from any.
    pub(crate) fn pusher(&self) -> impl Fn(Ended) + Send + Sync + 'static {
        // Weakly: who asks must not keep what belongs to the thread.
        let event_loop = Arc::downgrade(&self.event_loop);
        move |ended| {
            if let Some(event_loop) = event_loop.upgrade().filter(|known| known.alive()) {
                event_loop.push([ended]);
            }
        }
    }

    /// Whoever waits for the answer to this question, if somebody does.
    pub(crate) fn take_question(&self, question: u32) -> Option<Answer> {
        self.questions.borrow_mut().try_remove(question as usize)
    }

    /// A number that no other call and no other lease has or had. Never 0: in an outcome's row that means no lease.
    fn number(&self) -> Number {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        number
    }

    /// The next call has the number after this one.
    #[cfg(feature = "panics")]
    pub(crate) fn set_last_number(&self, number: Number) {
        self.last_number.set(number);
    }

    /// Changes what is waited for; the process may end once that is nothing.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> T {
        let answer = change(&mut self.pending.borrow_mut());
        if !self.in_turn.get() {
            self.keep();
        }
        answer
    }

    fn keep(&self) {
        self.event_loop.keep(&self.hearer, !self.pending.borrow().is_empty());
    }
}

/// Calls it when it is dropped.
struct Defer<F: Fn()>(F);

impl<F: Fn()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.event_loop.desert();
    }
}
