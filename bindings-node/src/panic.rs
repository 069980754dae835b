//! A deliberate panic, for the test that none crosses into JavaScript as anything but an exception.

use napi_derive::napi;

use crate::runtime::Runtime;

/// Only a process that sets this can panic on purpose.
const ALLOWED: &str = "REDLOCK_PANIC_FOR_TESTS";

#[napi]
impl Runtime {
    /// Panics here, or in a future on the background thread. No part of the package calls it.
    #[napi(js_name = "__panicForTests", skip_typescript, catch_unwind)]
    pub fn panic_for_tests(&self, slot: Option<u32>) -> napi::Result<()> {
        if std::env::var_os(ALLOWED).is_none() {
            return Err(napi::Error::from_reason(format!("only with {ALLOWED} set")));
        }
        let Some(slot) = slot else { panic!("a deliberate panic") };
        self.local.start(slot, async { panic!("a deliberate panic in a future") });
        Ok(())
    }
}
