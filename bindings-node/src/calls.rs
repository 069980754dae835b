//! Many calls in one crossing: those that JavaScript has written down, begun one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use napi::bindgen_prelude::{Env, Function};
use napi_derive::napi;

use crate::batch::{ACQUIRE, RELEASE};
use crate::outcome::Outcome;
use crate::runtime::{Local, Runtime};

#[napi]
impl Runtime {
    /// Starts the calls in the first rows. A function, and no method: for each call of those napi locks a table of the
    /// whole process, twice.
    #[napi(catch_unwind, ts_return_type = "(rows: number) => void")]
    pub fn sender<'env>(&self, env: &'env Env) -> napi::Result<Function<'env, (u32,), ()>> {
        // Weakly: JavaScript's functions must not keep what keeps one of them.
        let local = Rc::downgrade(&self.local);
        env.create_function_from_closure("send", move |call| {
            let rows = call.get(0)?;
            if let Some(local) = local.upgrade() {
                send(&local, rows);
            }
            Ok(())
        })
    }

    /// Stops a call; its slot will not be settled, and no key stays behind. False if it has been settled.
    #[napi(catch_unwind)]
    pub fn cancel(&self, slot: u32) -> bool {
        self.local.cancel(slot)
    }
}

fn send(local: &Local, rows: u32) {
    let _asks = local.asks();
    for call in (0..rows as usize).map_while(|at| local.batch.call(at)) {
        let begin = || match call.operation {
            ACQUIRE => local.acquire(call.slot, call.of, call.argument),
            RELEASE => local.release(call.slot, call.of),
            _ => local.enqueue(call.slot, async { Outcome::Broken }),
        };
        // One that panics must not keep the others from being sent.
        if catch_unwind(AssertUnwindSafe(begin)).is_err() {
            local.enqueue(call.slot, async { Outcome::Broken });
        }
    }
    local.wake();
}
