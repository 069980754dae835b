//! The state of one JavaScript thread.
//!
//! `spawn` starts its calls, `reader` reads the replies on its event loop, and `outcomes` delivers their results.

use std::cell::{OnceCell, RefCell};
use std::rc::Weak;
use std::sync::Arc;

use napi::bindgen_prelude::Env;
use redlock::Redlock;
use redlock::ffi::DefaultClient;
use slab::Slab;

use super::delivered::Delivered;
use super::event_loop::EventLoop;
use super::host::Host;
use super::turn::Turns;
use super::wake::Callback;
use crate::callback_requests::CallbackRequests;
use crate::held::Held;
use crate::number::Number;
use crate::outcome::Ended;
use crate::pending::Pending;
use crate::rows::Rows;

/// The state of the JavaScript thread of one environment.
pub(crate) struct ThreadState {
    /// The environment in which exceptions are thrown.
    pub(crate) env: Env,
    pub(super) me: Weak<Self>,
    /// The leases that JavaScript identifies by number.
    pub(crate) held: Held,
    /// The option sets that JavaScript identifies by number, each stored as a lock with these options.
    pub(crate) option_sets: RefCell<Slab<redlock::Lock>>,
    /// The client of locks that were created without one.
    pub(crate) default_client: DefaultClient<Redlock>,
    /// The calls of the program's functions.
    pub(crate) callback_requests: CallbackRequests,
    /// The rows of calls and outcomes.
    pub(crate) rows: Rows,
    /// The pending calls. While there are any, the process and `settle_callback` stay alive.
    pending: RefCell<Pending>,
    /// The acquires of the last delivered batch.
    pub(super) delivered: Delivered,
    /// The queue for outcomes.
    pub(super) event_loop: Arc<EventLoop>,
    /// The `settle` function of JavaScript.
    pub(super) settle_callback: Callback,
    /// Set if this thread's event loop can watch connections.
    pub(super) turns: Option<Turns>,
    /// Started with the first call, so that an import does not start a thread.
    pub(super) host: OnceCell<Host>,
}

impl ThreadState {
    /// Creates the state without pending calls.
    pub(super) fn new(
        env: Env,
        me: Weak<Self>,
        rows: Rows,
        event_loop: Arc<EventLoop>,
        settle_callback: Callback,
        turns: Option<Turns>,
    ) -> Self {
        Self {
            env,
            me,
            held: Held::default(),
            option_sets: RefCell::default(),
            default_client: DefaultClient::new(),
            callback_requests: CallbackRequests::default(),
            rows,
            pending: RefCell::default(),
            delivered: Delivered::default(),
            event_loop,
            settle_callback,
            turns,
            host: OnceCell::new(),
        }
    }

    /// Changes the pending calls. The process may end when none is left.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> T {
        let result = change(&mut self.pending.borrow_mut());
        // They may change many times during a turn.
        if !self.turns.as_ref().is_some_and(Turns::is_running) {
            self.keep_alive();
        }
        result
    }

    /// Returns the number of the next call.
    pub(super) fn next_number(&self) -> Number {
        self.pending.borrow_mut().next_number()
    }

    /// Keeps the process alive while calls are pending.
    pub(super) fn keep_alive(&self) {
        self.event_loop.keep_alive(&self.settle_callback, !self.pending.borrow().is_empty());
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

    /// Sets the last number. The next call gets the number after it.
    #[cfg(feature = "panics")]
    pub(crate) fn set_last_number(&self, number: Number) {
        self.pending.borrow_mut().last_number = number;
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        self.event_loop.mark_ended();
    }
}
