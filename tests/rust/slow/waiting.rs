//! Waiters: which callers they delay, and what delays them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redlock::{ErrorKind, Lock, Redlock};
use tokio::task::JoinHandle;

use crate::support::{Proxy, Server, builder, client, millis, servers};

const ACQUIRE_LIMIT: Duration = Duration::from_secs(4);

fn memory() -> Redlock {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = NEXT.fetch_add(1, Ordering::Relaxed);
    Redlock::builder([format!("memory://waiting-{name}")]).build().unwrap()
}

/// An acquire in progress that the nodes have refused by now.
async fn spawn_waiter(lock: Lock) -> JoinHandle<redlock::Result<redlock::Lease>> {
    let acquire = tokio::spawn(lock.wait(Duration::from_secs(20)).acquire());
    tokio::time::sleep(millis(150)).await;
    assert!(!acquire.is_finished());
    acquire
}

async fn acquire_soon(lock: Lock) -> redlock::Lease {
    tokio::time::timeout(ACQUIRE_LIMIT, lock.acquire()).await.expect("it was free").unwrap()
}

// Slow: waiters must have been refused, which no event shows.
#[tokio::test]
async fn waiter_for_two_names_does_not_block_the_free_one() {
    let nodes = servers(3);
    for redlock in [client(&nodes[..1]), client(&nodes), memory()] {
        let a = redlock.lock("a").acquire().await.unwrap();
        let both = spawn_waiter(redlock.lock(["a", "b"])).await;
        // The holder of one lock tries to acquire the other.
        let b = acquire_soon(redlock.lock("b")).await;
        b.release().await.unwrap();
        let tried = redlock.lock("b").try_acquire().await.unwrap();
        tried.expect("no client holds it").release().await.unwrap();
        a.release().await.unwrap();
        drop(tokio::time::timeout(ACQUIRE_LIMIT, both).await.unwrap().unwrap().unwrap());
    }
}

// Slow: waiters must have been refused, which no event shows.
#[tokio::test]
async fn queued_waiter_does_not_block_free_names() {
    let server = Server::start();
    for redlock in [client([&server]), memory()] {
        let a = redlock.lock("a").acquire().await.unwrap();
        let first = spawn_waiter(redlock.lock("a")).await;
        // Second in one queue, and first in the other.
        let both = spawn_waiter(redlock.lock(["b", "a"])).await;
        acquire_soon(redlock.lock("b")).await.release().await.unwrap();
        a.release().await.unwrap();
        first.await.unwrap().unwrap().release().await.unwrap();
        drop(tokio::time::timeout(ACQUIRE_LIMIT, both).await.unwrap().unwrap().unwrap());
    }
}

// Slow: waiters must have been refused, which no event shows.
#[tokio::test]
async fn waiters_for_a_taken_key_keep_their_order() {
    let server = Server::start();
    for redlock in [client([&server]), memory()] {
        let a = redlock.lock("a").acquire().await.unwrap();
        let both = spawn_waiter(redlock.lock(["a", "b"])).await;
        let late = spawn_waiter(redlock.lock("a")).await;
        assert!(redlock.lock("a").try_acquire().await.unwrap().is_none());
        a.release().await.unwrap();
        let lease = tokio::time::timeout(ACQUIRE_LIMIT, both).await.unwrap().unwrap().unwrap();
        tokio::time::sleep(millis(50)).await;
        assert!(!late.is_finished());
        lease.release().await.unwrap();
        drop(tokio::time::timeout(ACQUIRE_LIMIT, late).await.unwrap().unwrap().unwrap());
    }
}

// Slow: waiters must have been refused, which no event shows.
#[tokio::test]
async fn stale_key_on_a_minority_starves_no_waiter() {
    for stale in ["SET lock:job stale", "SET lock:job stale PX 60000"] {
        let nodes = servers(5);
        let (one, two) = (client(&nodes), client(&nodes));
        let lease = one.lock("job").acquire().await.unwrap();
        let waiter = spawn_waiter(two.lock("job")).await;
        nodes[0].ask(stale);
        tokio::time::sleep(millis(150)).await;
        lease.release().await.unwrap();
        let lease =
            tokio::time::timeout(ACQUIRE_LIMIT, waiter).await.expect("four of five are free");
        lease.unwrap().unwrap().release().await.unwrap();
    }
}

// Slow: waiters must have been refused, which no event shows.
#[tokio::test]
async fn frequent_wakeups_starve_no_waiter() {
    let nodes = servers(5);
    let (one, two) = (client(&nodes), client(&nodes));
    let lease = one.lock("job").acquire().await.unwrap();
    let waiter = spawn_waiter(two.lock("job")).await;
    nodes[0].ask("SET lock:job stale PX 60000");
    tokio::time::sleep(millis(150)).await;
    lease.release().await.unwrap();
    let end = Instant::now() + ACQUIRE_LIMIT;
    let mut left = 60_000;
    while !waiter.is_finished() {
        assert!(Instant::now() < end, "four of five are free");
        // Each one changes the key's TTL and wakes its waiters.
        left -= 100;
        nodes[0].ask(&format!("PEXPIRE lock:job {left}"));
        tokio::time::sleep(millis(50)).await;
    }
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

// Slow: a server is down for longer than the TTL.
#[tokio::test]
async fn only_wait_limits_retries_of_failing_nodes() {
    let mut server = Server::start();
    let redlock = client([&server]);
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    server.kill();
    let begun = Instant::now();
    let lock = redlock.lock("job").ttl(millis(300));
    let error = lock.clone().wait(millis(1500)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(begun.elapsed() >= millis(1500), "{error}");
    assert!(error.to_string().contains("not available for 1."), "since when: {error}");
    let waiter = tokio::spawn(lock.acquire());
    tokio::time::sleep(millis(1200)).await;
    assert!(!waiter.is_finished(), "without an end it goes on");
    server.restart();
    drop(tokio::time::timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap().unwrap());
}

// Slow: the waiter's requests must have become rare.
#[tokio::test]
async fn waiter_notices_that_no_notification_can_arrive() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    server.ask("SET lock:job foreign");
    let waiter = spawn_waiter(redlock.lock("job")).await;
    tokio::time::sleep(millis(8000)).await;
    // As behind a NAT that has lost its table. The server's notification is lost.
    proxy.forget();
    server.ask("DEL lock:job");
    let begun = Instant::now();
    drop(waiter.await.unwrap().unwrap());
    assert!(begun.elapsed() < ACQUIRE_LIMIT, "{:?}", begun.elapsed());
}
