//! `redlock::testing`: the events that a program's tests can trigger, and the clock that they control.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use redlock::LossReason;
use redlock::testing::{TestClock, TestRedlock};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn lose_notifies_the_holder_at_once() {
    let redlock = TestRedlock::new().unwrap();
    let (ours, other) = (redlock.lock("job"), redlock.lock("other"));
    let (lease, kept) = (ours.acquire().await.unwrap(), other.acquire().await.unwrap());
    assert!(redlock.lose("job").await.unwrap());
    assert!(!lease.is_held() && kept.is_held());
    assert_eq!(lease.lost_reason(), Some(LossReason::Missing));
    assert!(!redlock.lose("job").await.unwrap());
    // A lock that another holder has is lost to that holder too.
    let theirs = redlock.hold("job").await.unwrap();
    assert!(redlock.lose("job").await.unwrap());
    assert_eq!(theirs.lost().await.code(), "lost");
    let outcome = ours.using(async |_| redlock.lose("job").await).await;
    assert_eq!(outcome.unwrap_err().code(), "lost");
}

#[tokio::test]
async fn test_clients_are_isolated() {
    let (one, other) = (TestRedlock::new().unwrap(), TestRedlock::new().unwrap());
    let _lease = one.lock("job").acquire().await.unwrap();
    one.fail();
    assert!(other.lock("job").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn advance_and_jump_move_the_test_clock() {
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    let renewed = redlock.lock("renewed").acquire().await.unwrap();
    let left = redlock.lock("left").renew(false).acquire().await.unwrap();
    clock.advance(9 * SECOND).await;
    assert!(renewed.is_held() && left.is_held());
    assert!(left.remaining() < SECOND && renewed.remaining() > 5 * SECOND);
    clock.advance(SECOND).await;
    assert_eq!(left.lost().await.loss_reason(), Some(LossReason::Expired));
    clock.advance(600 * SECOND).await;
    assert!(renewed.is_held());
    assert_eq!(clock.elapsed(), 610 * SECOND);
    // A process that was stopped for that long finds it lost, and another client may hold it.
    clock.jump(11 * SECOND);
    assert!(!renewed.is_held());
    assert_eq!(renewed.lost().await.code(), "lost");
    assert!(redlock.hold("renewed").await.unwrap().is_held());
}

#[tokio::test]
async fn error_has_the_time_that_is_left_when_the_wait_ends() {
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    let _held = redlock.lock("job").ttl(60 * SECOND).renew(false).acquire().await.unwrap();
    let waiting = redlock.lock("job").wait(Some(30 * SECOND)).acquire();
    let (error, ()) = tokio::join!(waiting, clock.advance(31 * SECOND));
    let error = error.unwrap_err();
    assert!(error.remaining().is_some_and(|left| left <= 30 * SECOND), "{error}");
    assert!(error.to_string().contains("expires in 30.000 s"), "{error}");
}

#[tokio::test]
async fn jump_works_with_either_clock() {
    let clock = TestClock::new();
    for redlock in [TestRedlock::new().unwrap(), TestRedlock::with_clock(&clock).unwrap()] {
        let lease = redlock.lock("job").acquire().await.unwrap();
        let longer = redlock.lock("longer").ttl(60 * SECOND).acquire().await.unwrap();
        redlock.jump(11 * SECOND).await;
        assert_eq!(lease.lost_reason(), Some(LossReason::Expired));
        assert!(longer.is_held());
        assert!(redlock.hold("job").await.unwrap().is_held());
    }
}

#[tokio::test]
async fn acquire_waits_by_the_test_clock() {
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    let theirs = redlock.hold("job").await.unwrap();
    let lock = redlock.lock("job").wait(300 * SECOND);
    let (early, ()) = tokio::join!(tokio::time::timeout(60 * SECOND, lock.acquire()), async {
        clock.advance(299 * SECOND).await;
        clock.advance(2 * SECOND).await;
    });
    let error = early.expect("it waits by the machine's clock").unwrap_err();
    assert_eq!(error.code(), "timeout");
    assert!(error.waited().unwrap() >= 300 * SECOND, "{error}");
    assert!(theirs.is_held());
}

#[tokio::test]
async fn until_waiting_counts_the_acquires_of_the_client() {
    let redlock = TestRedlock::new().unwrap();
    redlock.until_waiting(0).await.unwrap();
    let theirs = redlock.hold("job").await.unwrap();
    let lock = redlock.lock("job");
    let (one, two, ()) = tokio::join!(lock.using(async |_| 1), lock.using(async |_| 2), async {
        redlock.until_waiting(2).await.unwrap();
        assert_eq!(redlock.stats().waiting, 2);
        assert!(is_pending(redlock.until_waiting(3)));
        theirs.release().await.unwrap();
    });
    assert_eq!((one.unwrap(), two.unwrap()), (1, 2));
}

/// Whether the future, which a task may run, waits.
fn is_pending(future: impl Future + Send) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(future).poll(&mut context).is_pending()
}

#[tokio::test]
async fn until_held_waits_for_any_client() {
    let clock = TestClock::new();
    for redlock in [TestRedlock::new().unwrap(), TestRedlock::with_clock(&clock).unwrap()] {
        assert!(is_pending(redlock.until_held("job")));
        let (held, theirs) = tokio::join!(redlock.until_held("job"), redlock.hold("job"));
        held.unwrap();
        theirs.unwrap().release().await.unwrap();
        assert!(is_pending(redlock.until_held("job")));
        let _ours = redlock.lock("job").acquire().await.unwrap();
        redlock.until_held("job").await.unwrap();
        redlock.fail();
        assert_eq!(redlock.until_held("job").await.unwrap_err().code(), "unavailable");
    }
}
