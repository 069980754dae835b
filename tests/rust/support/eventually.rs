//! Waits for events. The sleeps in this file are the only ones that tests need for polling.

use std::time::{Duration, Instant};

use redlock::{Error, Lock};

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

/// Returns the error of an acquire that fails late enough. A busy machine may delay the first steps of an attempt to
/// connect for longer than the acquire waits.
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) async fn late_failure(lock: &Lock, is_early: impl Fn(&str) -> bool) -> Error {
    let end = Instant::now() + DEADLINE;
    loop {
        let error = lock.acquire().await.unwrap_err();
        if !is_early(&error.to_string()) {
            return error;
        }
        assert!(Instant::now() < end, "not in time: {error}");
    }
}
