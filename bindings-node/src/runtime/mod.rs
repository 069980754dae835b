//! All code that crosses between threads of Rust and JavaScript.
//!
//! JavaScript assigns a slot to each call. The future of the call runs on the same thread, whose event loop watches its
//! connections. If that is not possible, it runs on core's background thread. The outcome returns to JavaScript's
//! `settle` with the slot. Outcomes of other threads wait in a queue, and the event loop is woken once for each batch.
//!
//! No panic reaches JavaScript. Exported functions and callbacks of C catch them, and a future becomes
//! `Outcome::Broken`.
//!
//! All other state belongs to the JavaScript thread and needs no lock. Each copy of the package has one `Runtime`. The
//! main thread, each worker and each context that loads the package have separate copies. When a copy is collected or
//! its environment ends, its calls are cancelled. Undelivered outcomes are dropped, which releases their leases. Its
//! held leases expire when their TTL ends.

mod delivered;
mod descriptor;
mod event_loop;
mod host;
mod libuv;
mod log;
mod outcomes;
mod reader;
mod spawn;
mod thread_state;
mod turn;
mod wake;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use napi::bindgen_prelude::{Env, Float64ArraySlice, FnArgs, Function};
use napi_derive::napi;
use redlock::ffi;

use self::event_loop::{EventLoop, Queue};
use self::outcomes::forward_warnings;
pub(crate) use self::thread_state::ThreadState;
use self::turn::Turns;
use self::wake::{Callback, Resource, Wake};
use crate::outcome::Outcome;
use crate::rows::Rows;

/// The number of written rows, and the side values.
type Settled = FnArgs<(u32, Option<Vec<Outcome>>)>;

/// The connection of one JavaScript thread to the native part.
#[napi]
pub struct Runtime {
    /// The state of the thread.
    pub(crate) thread: Rc<ThreadState>,
}

#[napi]
impl Runtime {
    /// `calls` and `outcomes` are rows of numbers. `settle` is called with the number of outcomes to read, and with the
    /// side values, if there are any.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        calls: Float64ArraySlice<'_>,
        outcomes: Float64ArraySlice<'_>,
        #[napi(ts_arg_type = "(rows: number, sideValues?: unknown[]) => void")] settle: Function<
            Settled,
            (),
        >,
    ) -> napi::Result<Self> {
        let queue = Queue::default();
        let slot: Rc<RefCell<Weak<ThreadState>>> = Rc::default();
        let (arrived, owner) = (Arc::clone(&queue), Rc::clone(&slot));
        let resource = Resource::new(env)?;
        let wake = Wake::new(env, &resource, move || match owner.borrow().upgrade() {
            Some(thread) => thread.deliver(),
            None => forward_warnings(arrived.take_all()),
        })?;
        let event_loop = Arc::new(EventLoop::new(queue, wake));
        log::forward_to(&event_loop);
        let settle_callback = Callback::new(env, &settle)?;
        let (rows, turns) = (Rows::new(&calls, &outcomes), Turns::new(env, &resource.shown));
        let new = |me: &Weak<ThreadState>| {
            ThreadState::new(env, me.clone(), rows, event_loop, settle_callback, turns)
        };
        let thread = Rc::new_cyclic(new);
        *slot.borrow_mut() = Rc::downgrade(&thread);
        Ok(Self { thread })
    }

    /// Sets the events that this thread receives from now on. Four bits belong to each of the topics `acquire`,
    /// `lease`, `node` and `client`, one for each of the levels `error`, `warn`, `info` and `debug`.
    #[napi(catch_unwind)]
    pub fn want_events(&self, bits: u32) {
        self.thread.event_loop.want_events(bits);
        log::request_events();
    }

    /// Takes the events that were not delivered, when the process ends.
    #[napi(catch_unwind, ts_return_type = "CoreEvent[]")]
    pub fn take_last_events(&self) -> Vec<Outcome> {
        self.thread.event_loop.take_last_events()
    }
}

/// Makes core write names of options and methods as in JavaScript, from the time this is loaded.
#[napi_derive::module_init]
fn init() {
    ffi::spell_in_camel_case();
}
