//! The state of one JavaScript thread, with its pending calls.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::Weak;
use std::sync::Arc;

use futures_util::FutureExt;
use napi::bindgen_prelude::Env;
use redlock::Redlock;
use redlock::ffi::{self, Acquire, DefaultClient};
use slab::Slab;

use super::event_loop::EventLoop;
use super::host::Host;
use super::turn::Turns;
use super::wake::Callback;
use crate::batch::Batch;
use crate::held::Held;
use crate::number::Number;
use crate::outcome::{CallbackRequest, Ended, Outcome};
use crate::pending::{Call, Pending};

/// The state of the JavaScript thread of one environment.
pub(crate) struct ThreadState {
    /// The environment in which exceptions are thrown.
    pub(crate) env: Env,
    me: Weak<Self>,
    /// The leases that JavaScript identifies by number.
    pub(crate) held: Held,
    /// The option sets that JavaScript identifies by number, each stored as a lock with these options.
    pub(crate) option_sets: RefCell<Slab<redlock::Lock>>,
    /// The arrays for calls and outcomes.
    pub(crate) batch: Batch,
    /// The client of locks that were created without one.
    pub(crate) default_client: DefaultClient<Redlock>,
    /// The queue for outcomes.
    pub(super) event_loop: Arc<EventLoop>,
    /// The `settle` function of JavaScript.
    pub(super) settle_callback: Callback,
    /// The pending calls. While there are any, the process and `settle_callback` stay alive.
    pending: RefCell<Pending>,
    /// The acquires of the last delivered batch. JavaScript passes their leases to the callers one after the other,
    /// which may take long.
    pub(super) delivered: RefCell<Vec<(Number, Acquire)>>,
    /// Started with the first call, so that an import does not start a thread.
    host: OnceCell<Host>,
    /// Set if this thread's event loop can watch connections.
    turns: Option<Turns>,
    /// Whether a turn of the loop runs in Rust. The pending calls may change many times before it ends.
    in_turn: Cell<bool>,
    last_number: Cell<Number>,
    /// The calls of the program's functions that have not returned.
    pub(super) callback_requests: RefCell<Slab<CallbackRequest>>,
}

impl ThreadState {
    /// Creates the state without pending calls.
    pub(super) fn new(
        env: Env,
        me: Weak<Self>,
        batch: Batch,
        event_loop: Arc<EventLoop>,
        settle_callback: Callback,
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
            settle_callback,
            pending: RefCell::default(),
            delivered: RefCell::default(),
            host: OnceCell::new(),
            turns,
            in_turn: Cell::new(false),
            last_number: Cell::new(0),
            callback_requests: RefCell::default(),
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

    /// Enqueues an acquire, or repeats one. `wake` sends it.
    pub(crate) fn enqueue_acquire(&self, slot: u32, acquire: Acquire) {
        self.job(slot, acquire.ask().map(Outcome::Acquired), Some(acquire));
    }

    /// Enqueues a call that cannot be cancelled. `wake` sends it.
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

    /// Sends the enqueued calls.
    pub(crate) fn wake(&self) {
        let done = self.host().begin();
        if !done.is_empty() {
            // JavaScript is in the middle of a native call, so outcomes cannot be delivered now.
            self.event_loop.push(done);
        }
    }

    /// Returns a guard. While it exists, new requests are left to this thread's event loop, and `wake` sends them.
    pub(crate) fn defer_sending(&self) -> Option<impl Sized + use<>> {
        self.host().is_on_event_loop().then(ffi::about_to_ask)
    }

    /// Waits for the loss of a lease, for as long as it is held, without keeping the process alive.
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

    /// Cancels the call in this slot. False if there was none.
    pub(crate) fn cancel(&self, slot: u32) -> bool {
        let cancelled = self.change(|calls| calls.cancel(slot));
        if cancelled && self.host().is_on_event_loop() {
            // Release a granted lease now, because the process may end before the loop's next turn.
            self.wake();
        }
        cancelled
    }

    fn host(&self) -> &Host {
        self.host.get_or_init(|| {
            let thread = self.me.clone();
            let on_readable =
                move || thread.upgrade().into_iter().for_each(|thread| thread.read_replies());
            let host = self
                .turns
                .as_ref()
                .and_then(|turns| Host::on_event_loop(turns.uv, self.env, on_readable));
            host.unwrap_or_else(|| Host::on_background_thread(Arc::clone(&self.event_loop)))
        })
    }

    /// Reads what is available on the connections of this thread. Returns the outcomes so far.
    pub(super) fn read_outcomes(&self) -> Vec<Ended> {
        self.host.get().map_or(Vec::new(), |host| host.driver.look().0)
    }

    /// Reads and delivers outcomes when the loop reports readable data.
    fn read_replies(&self) {
        let done = self.read_outcomes();
        if let Some(turns) = self.turns.as_ref().filter(|_| !done.is_empty()) {
            self.event_loop.add(done);
            let _turn = self.turn();
            turns.run(|| self.deliver());
        }
    }

    /// Returns a guard. `keep` runs once when it is dropped, instead of after each change of the pending calls.
    fn turn(&self) -> impl Drop + '_ {
        self.in_turn.set(true);
        Defer(|| {
            self.in_turn.set(false);
            self.keep();
        })
    }

    /// Returns a function that queues an outcome for this thread, from any thread.
    pub(crate) fn pusher(&self) -> impl Fn(Ended) + Send + Sync + 'static {
        // A weak reference, because core's callbacks must not keep the thread's state alive.
        let event_loop = Arc::downgrade(&self.event_loop);
        move |ended| {
            if let Some(event_loop) = event_loop.upgrade().filter(|known| known.alive()) {
                event_loop.push([ended]);
            }
        }
    }

    /// Removes and returns this request, if core still waits for it.
    pub(crate) fn take_callback_request(&self, request: u32) -> Option<CallbackRequest> {
        self.callback_requests.borrow_mut().try_remove(request as usize)
    }

    /// Returns a number that no call or lease had before. It is never 0, which means no lease in the row of an outcome.
    fn number(&self) -> Number {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        number
    }

    /// Sets the last number. The next call gets the number after it.
    #[cfg(feature = "panics")]
    pub(crate) fn set_last_number(&self, number: Number) {
        self.last_number.set(number);
    }

    /// Changes the pending calls. The process may end when none is left.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> T {
        let answer = change(&mut self.pending.borrow_mut());
        if !self.in_turn.get() {
            self.keep();
        }
        answer
    }

    fn keep(&self) {
        self.event_loop.keep(&self.settle_callback, !self.pending.borrow().is_empty());
    }
}

/// Calls the function when it is dropped.
struct Defer<F: Fn()>(F);

impl<F: Fn()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        self.event_loop.mark_ended();
    }
}
