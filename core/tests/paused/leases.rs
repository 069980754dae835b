//! `TestClock::tokio` and leases: waits, renewals and losses follow the sleeps of the test.

use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};
use redlock::{ErrorKind, LossReason};
use tokio::time::{Instant, sleep};

use super::{NEAR, SECOND, paused};

/// Checks that exactly this much of tokio's time has passed since then.
fn assert_passed(since: Instant, time: Duration) {
    let passed = since.elapsed();
    assert!(passed + NEAR >= time && passed <= time + NEAR, "{passed:?} for {time:?}");
}

#[tokio::test(start_paused = true)]
async fn paused_time_renews_leases_and_expires_unrenewed_ones() {
    let redlock = paused();
    let renewed = redlock.lock("renewed").acquire().await.unwrap();
    let left = redlock.lock("left").renew(false).acquire().await.unwrap();
    sleep(9 * SECOND).await;
    assert!(renewed.is_held() && left.is_held());
    assert!(left.remaining() < SECOND && renewed.remaining() > 5 * SECOND);
    sleep(31 * SECOND).await;
    assert!(renewed.is_held() && !left.is_held());
    assert_eq!(left.lost().await.loss_reason(), Some(LossReason::Expired));
    assert!(redlock.hold("left").await.unwrap().is_held());
    let error = redlock.hold("renewed").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(redlock.stats().renewed >= 11, "{:?}", redlock.stats());
    renewed.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reports_a_loss_exactly_at_the_deadline() {
    let redlock = paused();
    let begun = Instant::now();
    let left = redlock.lock("left").renew(false).acquire().await.unwrap();
    let short = redlock.lock("short").max_hold(25 * SECOND).acquire().await.unwrap();
    assert_eq!(left.lost().await.loss_reason(), Some(LossReason::Expired));
    assert_passed(begun, 10 * SECOND);
    assert_eq!(short.lost().await.loss_reason(), Some(LossReason::MaxHold));
    assert_passed(begun, 25 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn failing_nodes_end_a_lease_at_its_ttl() {
    let redlock = paused();
    let lease = redlock.lock("job").acquire().await.unwrap();
    sleep(60 * SECOND).await;
    redlock.fail();
    let begun = Instant::now();
    let waiting = redlock.lock("other").wait(3 * SECOND).acquire().await.unwrap_err();
    assert_eq!(waiting.kind(), ErrorKind::Unavailable);
    assert_passed(begun, 3 * SECOND);
    assert!(lease.is_held());
    assert_eq!(lease.lost().await.loss_reason(), Some(LossReason::Expired));
    assert!(begun.elapsed() > 6 * SECOND && begun.elapsed() <= 10 * SECOND);
    redlock.recover();
    assert!(redlock.lock("job").acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn acquire_waits_by_paused_time() {
    let redlock = paused();
    let theirs = redlock.hold("job").await.unwrap();
    let begun = Instant::now();
    let error = redlock.lock("job").wait(30 * SECOND).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_passed(begun, 30 * SECOND);
    let lock = redlock.lock("job");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(3600 * SECOND).await;
    assert!(!waiter.is_finished() && theirs.is_held());
    theirs.release().await.unwrap();
    assert!(waiter.await.unwrap().unwrap().is_held());
    assert_passed(begun, 3630 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn end_of_lease_cancels_the_body() {
    let redlock = paused();
    let begun = Instant::now();
    let lock = redlock.lock("job").max_hold(5 * SECOND);
    let error = lock.using(async |_| sleep(3600 * SECOND).await).await.unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::MaxHold));
    assert_passed(begun, 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn thousand_sequential_holds_keep_their_leases() {
    let redlock = paused();
    let begun = Instant::now();
    for turn in 0..1000 {
        let lease = redlock.lock("job").acquire().await.unwrap();
        sleep(20 * SECOND).await;
        assert!(lease.is_held(), "turn {turn}");
        lease.release().await.unwrap();
    }
    assert_passed(begun, 20_000 * SECOND);
    let stats = redlock.stats();
    assert_eq!((stats.granted, stats.released, stats.held), (1000, 1000, 0));
}

#[tokio::test(start_paused = true)]
async fn concurrent_waiters_acquire_one_at_a_time() {
    let redlock = paused();
    let begun = Instant::now();
    let turns = (0..50).map(|_| {
        let lock = redlock.lock("job");
        tokio::spawn(async move {
            let lease = lock.acquire().await.unwrap();
            sleep(20 * SECOND).await;
            lease.release().await.unwrap();
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        turn.await.unwrap();
    }
    assert_passed(begun, 1000 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn advance_moves_lease_time_without_tokio_time() {
    let clock = TestClock::tokio().unwrap();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let longer = redlock.lock("longer").ttl(60 * SECOND).acquire().await.unwrap();
    let begun = Instant::now();
    redlock.advance(11 * SECOND).await;
    assert_eq!(lease.lost_reason(), Some(LossReason::Expired));
    assert!(longer.is_held());
    assert!(begun.elapsed() <= SECOND);
    clock.advance(600 * SECOND).await;
    assert!(longer.is_held() && clock.elapsed() >= 611 * SECOND);
    assert_passed(begun, 600 * SECOND);
    assert!(redlock.lose("longer").await.unwrap() && !longer.is_held());
    assert_eq!(longer.lost_reason(), Some(LossReason::Missing));
}
