//! `min_hold`: after a release, the key stays without a holder until this long after the acquire. No client can acquire
//! it before.

use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};
use redlock::{ErrorKind, Lock, Redlock};

use crate::support::{Server, client, eventually, millis, servers};

const TTL: Duration = Duration::from_secs(20);

const MIN_HOLD: Duration = Duration::from_millis(1500);

fn min_hold_lock(redlock: &Redlock) -> Lock {
    redlock.lock("tick").ttl(TTL).min_hold(MIN_HOLD)
}

/// The remaining TTL of a key in ms. Negative if the key does not exist.
fn remaining_ttl(server: &Server, key: &str) -> i64 {
    server.ask(&format!("PTTL {key}")).trim_start_matches(':').parse().unwrap()
}

#[tokio::test]
async fn drop_and_release_all_keep_the_key() {
    let server = Server::start();
    let redlock = client([&server]);
    drop(min_hold_lock(&redlock).acquire().await.unwrap());
    eventually("dropped", || (1..=1600).contains(&remaining_ttl(&server, "lock:tick"))).await;
    server.ask("DEL lock:tick");
    let lease = min_hold_lock(&redlock).acquire().await.unwrap().into_handle();
    assert_eq!(redlock.release_all().await.unwrap(), 1);
    let all = remaining_ttl(&server, "lock:tick");
    assert!(!lease.is_held() && (1..=1600).contains(&all), "release_all: {all}");
}

#[tokio::test]
async fn keeps_each_name_and_ignores_foreign_keys() {
    let server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock(["a", "b"]).ttl(TTL).min_hold(TTL / 2);
    let lease = lock.acquire().await.unwrap();
    server.ask("SET lock:b other PX 60000");
    let error = lease.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    // The client may learn of the change to `b` before the release. It then releases `a` in the background.
    eventually("`a` shortened", || (1..=10_000).contains(&remaining_ttl(&server, "lock:a"))).await;
    let b = remaining_ttl(&server, "lock:b");
    assert!(b > 20_000, "{b}");
}

/// A process that dies leaves the key for its TTL, and a release keeps it for longer.
#[tokio::test]
async fn release_keeps_the_key_beyond_its_ttl() {
    let server = Server::start();
    let day = Duration::from_secs(86_400);
    let redlock = client([&server]);
    for lock in [
        redlock.lock("tick").ttl(TTL).min_hold(day),
        redlock.lock("tick").ttl(TTL).min_hold(day).max_hold(TTL),
        // Each permit is a key.
        redlock.semaphore("tick", 1).ttl(TTL).min_hold(day),
    ] {
        let lease = lock.acquire().await.unwrap();
        let key = lease.keys()[0].clone();
        assert!((1..=20_000).contains(&remaining_ttl(&server, &key)));
        lease.release().await.unwrap();
        assert!(remaining_ttl(&server, &key) > 86_000_000, "{key}");
        assert!(lock.force_release().await.unwrap());
    }
    // A renewal does not shorten what a release keeps.
    let lock = redlock.lock("tick").ttl(TTL).min_hold(TTL / 2);
    let lease = lock.acquire().await.unwrap();
    lease.extend(millis(2000)).await.unwrap();
    // As a node has it that was healed since.
    server.ask("PEXPIRE lock:tick 1500");
    lease.release().await.unwrap();
    assert!(remaining_ttl(&server, "lock:tick") > 9_000);
}

/// The end by `max_hold` is planned, so the keys must not end with it.
#[tokio::test]
async fn end_by_max_hold_keeps_the_key() {
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    let (second, min_hold) = (Duration::from_secs(1), TTL * 3);
    for max_hold in [TTL / 2, TTL, TTL * 2] {
        let lock = redlock.lock("tick").ttl(TTL).min_hold(min_hold).max_hold(max_hold);
        let lease = lock.acquire().await.unwrap();
        clock.advance(max_hold).await;
        assert_eq!(lease.lost().await.reason(), Some("max_hold"));
        let is_free = || async { lock.try_acquire().await.unwrap().is_some() };
        assert!(!is_free().await, "{max_hold:?}");
        // At the end of the scope.
        drop(lease);
        clock.advance(min_hold.saturating_sub(max_hold + second)).await;
        assert!(!is_free().await, "{max_hold:?}");
        clock.advance(3 * second).await;
        assert!(lock.force_release().await.is_ok() && is_free().await);
        assert!(lock.force_release().await.unwrap());
    }
    // A run that `max_hold` ends is not remembered. Its end deletes the key, unless the process dies before.
    let once = redlock.once("run", min_hold).ttl(TTL).max_hold(TTL / 2);
    let begun = once.run(async |_| {
        let left = redlock.lock("run").inspect().await?.remaining;
        assert!(left.is_some_and(|left| left <= TTL / 2), "{left:?}");
        clock.advance(TTL).await;
        Ok::<(), redlock::Error>(())
    });
    assert_eq!(begun.await.unwrap_err().reason(), Some("max_hold"));
    assert!(!redlock.lock("run").inspect().await.unwrap().held);
}

/// Some nodes may still have the keys of a lost lease. Its release must not block them for longer than their TTL.
#[tokio::test]
async fn release_of_a_lost_lease_keeps_no_key_longer() {
    let three = servers(3);
    let redlock = client(&three);
    let lock = redlock.lock("tick").ttl(TTL).min_hold(TTL * 9);
    let lease = lock.acquire().await.unwrap().into_handle();
    eventually("all granted", || three.iter().all(|it| it.ask("EXISTS lock:tick") == ":1")).await;
    for taken in &three[1..] {
        taken.ask("SET lock:tick other PX 60000");
    }
    tokio::time::timeout(TTL, lease.lost()).await.unwrap();
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);
    eventually("released", || three[0].ask("GET lock:tick").starts_with("kept:")).await;
    let left = remaining_ttl(&three[0], "lock:tick");
    assert!((1..=20_000).contains(&left), "{left}");
}

/// The key was deleted by hand. The error tells the waiter what to do.
#[tokio::test]
async fn reports_a_kept_key_without_ttl() {
    let server = Server::start();
    let redlock = client([&server]);
    min_hold_lock(&redlock).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(server.ask("PERSIST lock:tick").trim(), ":1");
    let error = redlock.lock("tick").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(error.to_string().contains("stays until it is deleted"), "{error}");
    assert_eq!((error.kind(), error.remaining()), (ErrorKind::Timeout, None));
    assert!(redlock.force_release("tick").await.unwrap());
    assert!(redlock.lock("tick").try_acquire().await.unwrap().is_some());
}
