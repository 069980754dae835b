//! Waits for events. The sleeps in this file are the only ones that tests need for polling.

use std::time::{Duration, Instant};

/// Generous, for a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(2);

/// Waits until the condition is true. Fails at the deadline.
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// `eventually` for a thread without a runtime.
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(INTERVAL);
    }
}
