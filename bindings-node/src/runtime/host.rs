//! Selects where the futures of this thread run. This is its event loop, if that can watch their connections, or else
//! the background thread.

use std::sync::Arc;

use napi::bindgen_prelude::Env;
use redlock::ffi::Driver;

use super::descriptor::Watch;
use super::event_loop::EventLoop;
use super::libuv::Functions;
use crate::outcome::Ended;

/// The event loop or the background thread.
pub(super) struct Host {
    /// Declared before the driver, so that it is dropped first. It watches a descriptor of the driver.
    watch: Option<Watch>,
    /// Runs the futures.
    pub(super) driver: Driver<Ended>,
}

impl Host {
    /// Uses this thread's event loop, which calls `on_readable` when data is readable. `None` if that is not possible.
    pub(super) fn on_event_loop(
        uv: &'static Functions,
        env: Env,
        on_readable: impl Fn() + 'static,
    ) -> Option<Self> {
        let driver = Driver::on_loop()?;
        let watch = Watch::start(uv, env, driver.descriptor()?, on_readable)?;
        Some(Self { watch: Some(watch), driver })
    }

    /// Uses the background thread, which queues outcomes for this thread's event loop.
    pub(super) fn on_background_thread(event_loop: Arc<EventLoop>) -> Self {
        Self { watch: None, driver: Driver::start(move |outcomes| event_loop.push(outcomes)) }
    }

    /// Whether the futures run on this thread.
    pub(super) fn is_on_event_loop(&self) -> bool {
        self.watch.is_some()
    }

    /// Starts the enqueued futures and returns those that completed immediately.
    pub(super) fn start_enqueued(&self) -> Vec<Ended> {
        let (done, written) = self.driver.wake();
        if !written {
            // JavaScript groups only the calls that it makes while outcomes are delivered, so no more will follow.
            self.driver.flush();
        }
        done
    }
}
