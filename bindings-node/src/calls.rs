//! Many calls in one crossing: those that JavaScript has written down, begun one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use napi::bindgen_prelude::{Env, FnArgs, Function, JsObjectValue, Object};
use napi_derive::napi;

use crate::batch::{ACQUIRE, RELEASE};
use crate::lock::Names;
use crate::outcome::Outcome;
use crate::runtime::{Local, Runtime};

#[napi]
impl Runtime {
    /// Starts the calls in the first rows; `names` are those of the locks to acquire, of one row alone or each at
    /// the place of its row. A function, and no method: for each call of those napi locks a table of the whole process, twice.
    #[napi(
        catch_unwind,
        ts_return_type = "(rows: number, names: (string | string[] | undefined)[] | string | string[] | undefined) => void"
    )]
    pub fn sender<'env>(&self, env: &'env Env) -> napi::Result<Function<'env, Sent<'env>, ()>> {
        // Weakly: JavaScript's functions must not keep what keeps one of them.
        let local = Rc::downgrade(&self.local);
        env.create_function_from_closure("send", move |call| {
            let rows: u32 = call.get(0)?;
            // Of one row alone they are no list: to ask for an element costs more than to read the name.
            let names = |at| {
                if rows == 1 { call.get(1) } else { call.get::<Object<'_>>(1)?.get_element(at) }
            };
            if let Some(local) = local.upgrade() {
                send(&local, rows, names);
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

/// How many rows, and the names beside them.
type Sent<'env> = FnArgs<(u32, Object<'env>)>;

fn send(local: &Local, rows: u32, names: impl Fn(u32) -> napi::Result<Names>) {
    let _asks = local.asks();
    for (at, call) in (0..rows).map_while(|at| Some((at, local.batch.call(at as usize)?))) {
        let acquire = || match names(at) {
            Ok(names) => local.acquire(call.slot, call.of, names, call.argument),
            Err(_) => local.enqueue(call.slot, async { Outcome::Broken }),
        };
        let begin = || match call.operation {
            ACQUIRE => acquire(),
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
