//! A deliberate panic, for the test that none crosses into JavaScript as anything but an exception. Not in
//! what is shipped.

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
}
