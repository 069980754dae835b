//! Who runs this thread's futures: its own event loop, where that can watch their connections, or the background thread.

use std::sync::Arc;

use napi::bindgen_prelude::Env;
use redlock::ffi::Driver;

use super::event_loop::EventLoop;
use super::libuv::Functions;
use super::watch::Watch;
use crate::outcome::Ended;

/// One of the two.
pub(super) struct Host {
    /// Before the driver: what it watches is the driver's.
    watch: Option<Watch>,
    /// Runs them.
    pub(super) driver: Driver<Ended>,
}

impl Host {
    /// This thread's event loop, which calls `look` when there is something to read. `None`: it cannot.
    pub(super) fn here(
        uv: &'static Functions,
        env: Env,
        look: impl Fn() + 'static,
    ) -> Option<Self> {
        let driver = Driver::on_loop()?;
        let watch = Watch::start(uv, env, driver.descriptor()?, look)?;
        Some(Self { watch: Some(watch), driver })
    }

    /// The background thread, which leaves outcomes for this one's event loop.
    pub(super) fn elsewhere(event_loop: Arc<EventLoop>) -> Self {
        Self { watch: None, driver: Driver::start(move |outcomes| event_loop.push(outcomes)) }
    }

    /// Whether it is this thread.
    pub(super) fn is_here(&self) -> bool {
        self.watch.is_some()
    }

    /// Sends what was handed over; what was done at once.
    pub(super) fn begin(&self) -> Vec<Ended> {
        let begun = self.driver.wake();
        if !begun.written {
            // JavaScript hands over all of its turn in one call.
            self.driver.flush();
        }
        begun.done
    }
}
