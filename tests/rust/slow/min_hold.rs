//! `min_hold`: after a release, the key stays without a holder until this long after the acquire. No client can acquire
//! it before.

use std::time::{Duration, Instant};

use redlock::ffi::{self, Acquire, ClientArgs, LockArgs, Unit};
use redlock::{ErrorKind, Lock, Redlock};

use crate::support::{Server, client, millis, servers};

const TTL: Duration = Duration::from_secs(20);

const MIN_HOLD: Duration = Duration::from_millis(1500);

fn min_hold_lock(redlock: &Redlock) -> Lock {
    redlock.lock("tick").ttl(TTL).min_hold(MIN_HOLD)
}

/// The lock is released immediately. It has no holder until its time, and then the waiter acquires it.
async fn check_min_hold(one: Redlock, two: Redlock) {
    let begun = Instant::now();
    let lease = min_hold_lock(&one).acquire().await.unwrap().into_handle();
    // It has waited since before the release, when the rest of the TTL was still ahead.
    let waiter = tokio::spawn(min_hold_lock(&two).wait(TTL).acquire());
    let local = tokio::spawn(one.lock("tick").wait(TTL).acquire());
    tokio::time::sleep(millis(200)).await;
    lease.release().await.unwrap();
    assert!(lease.is_released() && !lease.is_held() && lease.remaining().is_zero());
    lease.release().await.unwrap();
    assert!(two.lock("tick").try_acquire().await.unwrap().is_none());
    let error = one.lock("tick").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Timeout && error.remaining() <= Some(MIN_HOLD * 2),
        "{error}"
    );
    let (first, second) = tokio::select! {
        biased;
        lease = waiter => (lease.unwrap().unwrap(), None),
        lease = local => (lease.unwrap().unwrap(), Some(())),
    };
    let after = begun.elapsed();
    assert!(after >= MIN_HOLD * 99 / 100 && after < TTL / 2, "{after:?} {second:?}");
    drop(first);
}

// Slow: the key stays for its minimum hold time on real servers.
#[tokio::test]
async fn min_hold_keeps_the_key_on_every_kind_of_node() {
    let memory = || Redlock::builder(["memory://tick"]).build().unwrap();
    check_min_hold(memory(), memory()).await;
    let server = Server::start();
    check_min_hold(client([&server]), client([&server])).await;
    let five = servers(5);
    check_min_hold(client(&five), client(&five)).await;
}

// Slow: the minimum hold time must pass on a real server.
#[tokio::test]
async fn release_after_min_hold_or_unused_deletes_the_key() {
    let server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("tick").min_hold(millis(150)).acquire().await.unwrap();
    tokio::time::sleep(millis(200)).await;
    lease.release().await.unwrap();
    assert_eq!(server.ask("EXISTS lock:tick"), ":0");
    // Granted to a caller of another language that has gone.
    let client = ffi::client(vec![server.url()], &ClientArgs::of_client(Unit::Seconds)).unwrap();
    let args = LockArgs::of_lock(Unit::Seconds).with("min_hold", Some(5.0));
    let lock = ffi::lock(&client, vec!["tick".into()], &args).unwrap();
    drop(Acquire::once(&lock).acquire().await.unwrap().unwrap());
    tokio::time::sleep(millis(100)).await;
    assert_eq!(server.ask("EXISTS lock:tick"), ":0");
}
