//! Every hazard between Rust's threads and the JavaScript thread, in this folder.
//!
//! JavaScript gives each call a slot; its future runs on this same thread, whose event loop watches what it waits for, and
//! where that cannot be, on core's background thread. The slot comes back to JavaScript's `settle` with the outcome. What
//! other threads have to say waits in a queue, and the event loop is woken once per batch, never once per call.
//! All other state belongs to the JavaScript thread alone and needs no lock. There is one `Runtime` per copy of the
//! package: the main thread and each worker has its own, and so has each context that loads it. When a copy is collected
//! or its environment ends, its calls are cancelled, outcomes that nobody will see are dropped (a dropped lease
//! releases), and what it held lives out its ttl.

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

/// How many rows were written, and what goes beside them.
type Settled = FnArgs<(u32, Option<Vec<Outcome>>)>;

/// One JavaScript thread's connection to the background thread.
#[napi]
pub struct Runtime {
    /// What belongs to it.
    pub(crate) local: Rc<Local>,
}

#[napi]
impl Runtime {
    /// `calls` and `outcomes` are rows of numbers; `settle` is called with how many outcomes are there to be read, and
    /// with what goes beside them, if anything does.
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

    /// Of which topics this thread is told each step from now on: 1 `acquire`, 2 `lease`, 4 `node`, 8 `client`, in sum.
    #[napi(catch_unwind)]
    pub fn want_steps(&self, topics: u32) {
        self.local.event_loop.want_steps(topics);
        log::want();
    }
}

/// Core writes names of options and methods as JavaScript does, from the moment that this is loaded.
#[napi_derive::module_init]
fn init() {
    ffi::spell_in_camel_case();
}
