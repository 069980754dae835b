//! `TestClock::tokio`: in a runtime whose time is paused, waits, renewals and losses follow the sleeps of the test.

use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};

mod leases;
#[cfg(target_os = "linux")]
#[path = "../../src/tests/limit.rs"]
mod limit;
mod outages;
mod runtimes;

const SECOND: Duration = Duration::from_secs(1);
/// Between two that are at the same time: what timers round, and what clocks may differ by (1 % of a ttl).
const NEAR: Duration = Duration::from_millis(150);

fn paused() -> TestRedlock {
    TestRedlock::with_clock(&TestClock::tokio().unwrap()).unwrap()
}
