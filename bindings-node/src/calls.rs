//! Many calls in one crossing: those that JavaScript has written down, begun one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};

use napi_derive::napi;

use crate::batch::{ACQUIRE, RELEASE};
use crate::outcome::Outcome;
use crate::runtime::Runtime;

#[napi]
impl Runtime {
    /// Starts the calls in the first rows.
    #[napi(catch_unwind)]
    pub fn send(&self, rows: u32) {
        let local = &self.local;
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

    /// Stops a call; its slot will not be settled, and no key stays behind. False if it has been settled.
    #[napi(catch_unwind)]
    pub fn cancel(&self, slot: u32) -> bool {
        self.local.cancel(slot)
    }
}
