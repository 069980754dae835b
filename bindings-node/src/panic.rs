//! Functions for tests, which cause a panic or set the last number. They are not in the published package.

use napi_derive::napi;

use crate::runtime::Runtime;

#[napi]
impl Runtime {
    /// Panics here, or in a future. The package does not call it.
    #[allow(clippy::unnecessary_wraps, reason = "as every method that fails")]
    #[napi(js_name = "__panicForTests", skip_typescript, catch_unwind)]
    pub fn panic_for_tests(&self, slot: Option<u32>) -> napi::Result<()> {
        let Some(slot) = slot else { panic!("a deliberate panic") };
        self.thread.start(slot, async { panic!("a deliberate panic in a future") });
        Ok(())
    }

    /// Sets the last number. The next call gets the number after it.
    #[napi(js_name = "__setLastNumberForTests", skip_typescript, catch_unwind)]
    pub fn set_last_number_for_tests(&self, number: i64) {
        self.thread.set_last_number(number);
    }
}
