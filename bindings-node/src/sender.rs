//! Starts the calls that JavaScript recorded, many in one native call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use napi::bindgen_prelude::{Env, FnArgs, Function, JsObjectValue, Object};
use napi_derive::napi;

use crate::lock::Names;
use crate::outcome::Outcome;
use crate::rows::Operation;
use crate::runtime::{Runtime, ThreadState};

#[napi]
impl Runtime {
    /// Returns a function that starts the calls in the first rows. `names` are the names for a single row, or else a
    /// list with the names for each row. It is not a method, because napi locks a process-wide table twice for each
    /// method call.
    #[napi(
        catch_unwind,
        ts_return_type = "(rows: number, names: (string | string[] | undefined)[] | string | string[] | undefined) => void"
    )]
    pub fn sender<'env>(&self, env: &'env Env) -> napi::Result<Function<'env, Sent<'env>, ()>> {
        // A weak reference, because the function must not keep alive what it belongs to.
        let thread = Rc::downgrade(&self.thread);
        env.create_function_from_closure("send", move |call| {
            let rows: u32 = call.get(0)?;
            // Names of a single row are not in a list, because reading an element costs more than reading the name.
            let names = |at| {
                if rows == 1 { call.get(1) } else { call.get::<Object<'_>>(1)?.get_element(at) }
            };
            if let Some(thread) = thread.upgrade() {
                send(&thread, rows, names);
            }
            Ok(())
        })
    }

    /// Cancels all calls but releases, so that no acquire in flight leaves a key. Called when the process ends.
    #[napi(catch_unwind)]
    pub fn cancel_all(&self) {
        self.thread.cancel_all();
    }

    /// Cancels a call, so that its slot is not settled and no key remains. False if it was already settled.
    #[napi(catch_unwind)]
    pub fn cancel(&self, slot: u32) -> bool {
        self.thread.cancel(slot)
    }
}

/// The number of rows, and their names.
type Sent<'env> = FnArgs<(u32, Object<'env>)>;

fn send(thread: &ThreadState, rows: u32, names: impl Fn(u32) -> napi::Result<Names>) {
    let _deferred = thread.defer_sending();
    for (at, call) in (0..rows).map_while(|at| Some((at, thread.rows.call(at as usize)?))) {
        let acquire = || match names(at) {
            Ok(names) => thread.acquire(call.slot, call.target, names, call.argument),
            Err(_) => thread.enqueue(call.slot, async { Outcome::Broken }),
        };
        let begin = || match call.operation {
            Some(Operation::Acquire) => acquire(),
            Some(Operation::Release) => {
                thread.release(call.slot, call.target, call.argument.is_some());
            }
            None => thread.enqueue(call.slot, async { Outcome::Broken }),
        };
        // A call that panics must not stop the others from being sent.
        if catch_unwind(AssertUnwindSafe(begin)).is_err() {
            thread.enqueue(call.slot, async { Outcome::Broken });
        }
    }
    thread.wake();
}
