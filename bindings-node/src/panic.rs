//! What only tests call: a deliberate panic, and numbers as after billions of calls. Not in what is shipped.

use napi_derive::napi;

use crate::runtime::Runtime;

#[napi]
impl Runtime {
    /// Panics here, or in a future on the background thread. No part of the package calls it.
    #[allow(clippy::unnecessary_wraps, reason = "as every method that fails")]
    #[napi(js_name = "__panicForTests", skip_typescript, catch_unwind)]
    pub fn panic_for_tests(&self, slot: Option<u32>) -> napi::Result<()> {
        let Some(slot) = slot else { panic!("a deliberate panic") };
        self.local.start(slot, async { panic!("a deliberate panic in a future") });
        Ok(())
    }

    /// The next call has the number after this one.
    #[napi(js_name = "__setLastNumberForTests", skip_typescript, catch_unwind)]
    pub fn set_last_number_for_tests(&self, number: i64) {
        self.local.set_last_number(number);
    }
}
