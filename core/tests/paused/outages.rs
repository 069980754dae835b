//! An acquire without a `wait` and a failed node, by a clock of the test.

use redlock::ErrorKind;
use redlock::testing::{TestClock, TestRedlock};
use tokio::time::{Instant, sleep};

use super::{NEAR, SECOND, paused};

#[tokio::test(start_paused = true)]
async fn default_limit_is_ten_seconds() {
    let redlock = paused();
    redlock.fail();
    let begun = Instant::now();
    let error = redlock.lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let passed = begun.elapsed();
    assert!(passed >= 10 * SECOND && passed <= 10 * SECOND + NEAR, "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn reply_of_a_node_restarts_the_limit() {
    let redlock = paused();
    let theirs = redlock.hold("job").await.unwrap();
    let lock = redlock.lock("job");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(60 * SECOND).await;
    for _ in 0..3 {
        redlock.fail();
        // The holder must renew in time.
        sleep(6 * SECOND).await;
        redlock.recover();
        sleep(6 * SECOND).await;
        assert!(!waiter.is_finished() && theirs.is_held());
    }
    theirs.release().await.unwrap();
    assert!(waiter.await.unwrap().unwrap().is_held());
}

#[tokio::test]
async fn advancing_the_test_clock_ends_the_acquire() {
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    redlock.fail();
    let lock = redlock.lock("job");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    while redlock.stats().waiting == 0 {
        tokio::task::yield_now().await;
    }
    // The waiter's time began when the clock stood at its start.
    clock.advance(9 * SECOND).await;
    assert!(!waiter.is_finished());
    clock.advance(2 * SECOND).await;
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}
