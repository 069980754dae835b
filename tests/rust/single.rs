//! One node, real and in memory: exclusion, token safety, waiting, loss.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use redlock::{ErrorKind, LossReason, Redlock};

use crate::support::{Server, block_on, builder, client, eventually, eventually_blocking, millis};

#[tokio::test]
async fn unnamed_memory_node_is_private_to_its_client() {
    let unnamed = || Redlock::builder(["memory://"]).build().unwrap();
    let (one, two) = (unnamed(), unnamed());
    let lease = one.lock("job").acquire().await.unwrap();
    let other = two.lock("job").try_acquire().await.unwrap();
    assert!(other.is_some(), "another client's node");
    // A clone is the same client and has one node.
    assert!(one.clone().lock("job").try_acquire().await.unwrap().is_none());
    assert_eq!(one.nodes(), two.nodes());
    drop(lease);
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The grant is read, and its caller polls only after the server has lost the key.
#[test]
fn grant_that_is_polled_after_a_restart_is_checked() {
    let mut server = Server::start();
    let redlock = client([&server]);
    let lock = |name| redlock.lock(name).ttl(millis(60_000)).renew(false);
    let earlier = block_on(lock("earlier").acquire()).unwrap();
    let mut acquire = pin!(lock("job").acquire());
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    // Otherwise the first poll may already read the reply.
    server.signal(libc::SIGSTOP);
    assert!(acquire.as_mut().poll(&mut context).is_pending());
    server.signal(libc::SIGCONT);
    eventually_blocking("the reply", || woken.0.load(Ordering::Relaxed));
    server.kill();
    server.restart();
    // Then the begin of the next connection has been handled too.
    eventually_blocking("the loss of an earlier lease", || !earlier.is_held());
    assert_eq!(earlier.lost_reason(), Some(LossReason::Missing));
    let Poll::Ready(lease) = acquire.poll(&mut context) else { panic!("it was granted") };
    let lease = lease.unwrap();
    eventually_blocking("the loss", || !lease.is_held());
    assert_eq!(lease.lost_reason(), Some(LossReason::Missing));
}

#[tokio::test]
async fn dropped_acquire_leaves_no_key_and_no_queue_entry() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let lease = one.lock("job").acquire().await.unwrap();
    let waiting = tokio::time::timeout(millis(50), two.lock("job").acquire()).await;
    assert!(waiting.is_err());
    lease.release().await.unwrap();
    eventually("no key", || server.ask("EXISTS lock:job") == ":0").await;
    // Dropped between the request and the reply. The grant is in flight, and so is its delete.
    let lock = two.lock("job");
    for _ in 0..20 {
        let mut acquire = std::pin::pin!(lock.acquire());
        // Ready only if the background thread was faster than this one.
        drop(futures_util::poll!(acquire.as_mut()));
    }
    let lease = one.lock("job").wait(millis(1000)).acquire().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn dropped_lease_is_released_and_detached_lease_is_not() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    drop(one.lock("job").acquire().await.unwrap());
    let lease = two.lock("job").wait(millis(2000)).acquire().await.unwrap();
    assert!(lease.into_handle().detach());
    assert!(one.lock("job").try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn remaining_time_is_unknown_if_one_of_the_keys_has_no_end() {
    let server = Server::start();
    server.ask("SET lock:a owner");
    server.ask("SET lock:b owner PX 5000");
    let found = client([&server]).lock(["a", "b"]).inspect().await.unwrap();
    assert!(found.held);
    assert_eq!(found.remaining, None);
}

/// Overwrites the key of a lock with data of another type.
fn overwrite(server: &Server, name: &str) {
    assert_eq!(server.ask("RPUSH other theirs"), ":1");
    assert_eq!(server.ask(&format!("RENAME other lock:{name}")), "+OK");
}

#[tokio::test]
async fn release_deletes_all_keys_except_one_of_another_type() {
    let server = Server::start();
    // Without notifications, the release detects the loss.
    let redlock = builder([format!("{}?protocol=2", server.url())]).build().unwrap();
    for (names, min_hold, left) in
        [(&["a"][..], 0, ":1"), (&["a", "b", "c"], 0, ":1"), (&["a", "b", "c"], 50_000, ":3")]
    {
        let lock = redlock.lock(names).ttl(millis(60_000)).min_hold(millis(min_hold));
        let lease = lock.acquire().await.unwrap();
        overwrite(&server, "a");
        assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost, "{names:?}");
        eventually("the other keys are deleted", || server.ask("DBSIZE") == left).await;
        if left == ":3" {
            assert!(server.ask("GET lock:b").starts_with("kept:"));
        }
        assert_eq!(server.ask("LLEN lock:a"), ":1");
        server.ask("FLUSHALL");
    }
}
