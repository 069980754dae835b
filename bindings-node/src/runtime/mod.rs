//! All code that crosses between threads of Rust and JavaScript.
//!
//! JavaScript assigns a slot to each call. The future of the call runs on the same thread, whose event loop watches its
//! connections. If that is not possible, it runs on core's background thread. The outcome returns to JavaScript's
//! `settle` with the slot. Outcomes of other threads wait in a queue, and the event loop is woken once for each batch.
//!
//! All other state belongs to the JavaScript thread and needs no lock. Each copy of the package has one `Runtime`. The
//! main thread, each worker and each context that loads the package have separate copies. When a copy is collected or
//! its environment ends, its calls are cancelled. Undelivered outcomes are dropped, which releases their leases. Its
//! held leases expire when their TTL ends.

mod event_loop;
mod host;
mod libuv;
mod local;
mod log;
mod outcomes;
mod turn;
mod wake;
mod watch;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use napi::bindgen_prelude::{Env, Float64ArraySlice, FnArgs, Function};
use napi_derive::napi;
use redlock::ffi;

use self::event_loop::{EventLoop, Queue};
pub(crate) use self::local::Local;
use self::outcomes::pass_on;
use self::turn::Turns;
use self::wake::{Callback, Resource, Wake};
use crate::batch::Batch;
use crate::outcome::Outcome;

/// The number of written rows, and the values beside them.
type Settled = FnArgs<(u32, Option<Vec<Outcome>>)>;

/// The connection of one JavaScript thread to the native part.
#[napi]
pub struct Runtime {
    /// The state of the thread.
    pub(crate) local: Rc<Local>,
}

#[napi]
impl Runtime {
    /// `calls` and `outcomes` are rows of numbers. `settle` is called with the number of outcomes to read, and with the
    /// values beside them, if there are any.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        calls: Float64ArraySlice<'_>,
        outcomes: Float64ArraySlice<'_>,
        #[napi(ts_arg_type = "(rows: number, beside?: unknown[]) => void")] settle: Function<
            Settled,
            (),
        >,
    ) -> napi::Result<Self> {
        let queue = Queue::default();
        let slot: Rc<RefCell<Weak<Local>>> = Rc::default();
        let (arrived, owner) = (Arc::clone(&queue), Rc::clone(&slot));
        let resource = Resource::new(env)?;
        let wake = Wake::new(env, &resource, move || match owner.borrow().upgrade() {
            Some(local) => local.tell(),
            None => pass_on(arrived.take(usize::MAX).0),
        })?;
        let event_loop = Arc::new(EventLoop::new(queue, wake));
        log::forward_to(&event_loop);
        let hearer = Callback::new(env, &settle)?;
        let (batch, turns) = (Batch::new(&calls, &outcomes), Turns::new(env, &resource.shown));
        let new = |me: &Weak<Local>| Local::new(env, me.clone(), batch, event_loop, hearer, turns);
        let local = Rc::new_cyclic(new);
        *slot.borrow_mut() = Rc::downgrade(&local);
        Ok(Self { local })
    }

    /// Sets the topics whose steps this thread receives from now on, as a sum of 1 `acquire`, 2 `lease`, 4 `node` and 8
    /// `client`.
    #[napi(catch_unwind)]
    pub fn want_steps(&self, topics: u32) {
        self.local.event_loop.want_steps(topics);
        log::want();
    }
}

/// Makes core write names of options and methods as in JavaScript, from the time this is loaded.
#[napi_derive::module_init]
fn init() {
    ffi::spell_in_camel_case();
}
