//! One node, real and in memory: exclusion, token safety, waiting, loss.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use redlock::{ErrorKind, LossReason, Redlock};

use crate::support::{
    Mode, Proxy, Server, block_on, builder, client, eventually, eventually_blocking, millis,
};

fn memory(name: &str) -> Redlock {
    Redlock::builder([format!("memory://{name}")]).build().unwrap()
}

async fn excludes(redlock: Redlock, other: Redlock) {
    let lease = redlock.lock("job").acquire().await.unwrap();
    assert!(lease.is_held());
    assert!(other.lock("job").try_acquire().await.unwrap().is_none());
    let timeout = other.lock("job").wait(millis(50)).acquire().await.unwrap_err();
    assert_eq!(timeout.kind(), ErrorKind::Timeout);
    assert!(timeout.waited().unwrap() >= millis(50), "{timeout}");
    assert!(timeout.remaining().unwrap() > Duration::from_secs(5), "{timeout}");
    lease.release().await.unwrap();
    other.lock("job").wait(Duration::ZERO).acquire().await.unwrap().release().await.unwrap();
}

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

#[tokio::test]
async fn two_clients_exclude_each_other() {
    let server = Server::start();
    excludes(client([&server]), client([&server])).await;
    excludes(memory("exclude"), memory("exclude")).await;
}

#[tokio::test]
async fn key_is_prefix_plus_name_and_value_is_the_token() {
    let server = Server::start();
    let redlock = builder([server.url()]).key_prefix("app:").build().unwrap();
    let lease = redlock.lock("job").ttl(millis(5000)).acquire().await.unwrap();
    assert_eq!(lease.key(), "app:job");
    assert_eq!(server.ask("GET app:job"), lease.token());
    assert!(lease.token().len() == 32 && lease.token().bytes().all(|b| b.is_ascii_hexdigit()));
    let left: i64 = server.ask("PTTL app:job").trim_start_matches(':').parse().unwrap();
    assert!((4000..=5000).contains(&left), "{left}");
    assert!(lease.remaining() <= millis(5000 - 52) && lease.remaining() > millis(4000));
    lease.release().await.unwrap();
    assert_eq!(server.ask("EXISTS app:job"), ":0");
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
    let Poll::Ready(lease) = acquire.poll(&mut context) else { panic!("it was granted") };
    let lease = lease.unwrap();
    eventually_blocking("the loss", || !lease.is_held());
    assert_eq!(lease.lost_reason(), Some(LossReason::Missing));
}

#[tokio::test]
async fn several_names_are_acquired_all_or_none() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let lease = one.lock(["a", "b"]).acquire().await.unwrap();
    assert!(two.lock(["b", "c"]).try_acquire().await.unwrap().is_none());
    assert_eq!(server.ask("EXISTS lock:c"), ":0");
    assert_eq!(server.ask("GET lock:a"), server.ask("GET lock:b"));
    lease.release().await.unwrap();
    let lease = two.lock(["b", "c"]).try_acquire().await.unwrap().unwrap();
    lease.release().await.unwrap();
    assert_eq!(server.ask("DBSIZE"), ":0");
}

#[tokio::test]
async fn renewal_keeps_a_lease_beyond_its_ttl() {
    let server = Server::start();
    for redlock in [client([&server]), memory("renewal")] {
        let lease = redlock.lock("job").ttl(millis(300)).acquire().await.unwrap();
        // Each renewal comes a third of the TTL after the one before.
        eventually("renewals", || redlock.stats().renewed >= 6).await;
        lease.ensure_held().unwrap();
        assert!(redlock.lock("job").try_acquire().await.unwrap().is_none());
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn expired_lease_does_not_touch_the_next_holder() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let stale = one.lock("job").ttl(millis(200)).renew(false).acquire().await.unwrap();
    let lost = stale.lost();
    let next = two.lock("job").wait(millis(3000)).acquire().await.unwrap();
    assert_eq!(lost.await.loss_reason(), Some(LossReason::Expired));
    assert!(!stale.is_held());
    assert_eq!(stale.extend(millis(500)).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(stale.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(server.ask("GET lock:job"), next.token());
    next.release().await.unwrap();
}

#[tokio::test]
async fn extend_never_shortens_and_sets_the_ttl_of_renewals() {
    let server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").ttl(millis(10_000)).renew(false).acquire().await.unwrap();
    lease.extend(millis(500)).await.unwrap();
    assert!(lease.remaining() > millis(8000), "{:?}", lease.remaining());
    lease.extend(millis(30_000)).await.unwrap();
    assert!(lease.remaining() > millis(28_000));
    let left: i64 = server.ask("PTTL lock:job").trim_start_matches(':').parse().unwrap();
    assert!(left > 28_000);
    assert_eq!(lease.extend(millis(50)).await.unwrap_err().kind(), ErrorKind::Invalid);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn max_hold_ends_a_renewed_lease() {
    let server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock("job").ttl(millis(300)).max_hold(millis(800));
    let started = Instant::now();
    let lease = lock.acquire().await.unwrap();
    let error = lease.lost().await;
    let held = started.elapsed();
    assert_eq!(error.reason(), Some("max_hold"));
    assert!(held >= millis(600), "{held:?}");
    drop(lease);
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
async fn every_kind_of_key_deletion_wakes_waiters() {
    let server = Server::start();
    let redlock = client([&server]);
    for delete in ["DEL lock:job", "FLUSHALL", "PEXPIRE lock:job 0"] {
        server.ask("SET lock:job other PX 60000");
        let waiting = tokio::spawn(redlock.lock("job").wait(millis(10_000)).acquire());
        let tracked = || server.info("stats", "tracking_total_keys");
        eventually("it was refused", || tracked().as_deref() == Some("1")).await;
        server.ask(delete);
        let lease = waiting.await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn holder_is_notified_when_its_key_changes() {
    let server = Server::start();
    let redlock = client([&server]);
    for (delete, reason) in
        [("DEL lock:job", "missing"), ("FLUSHALL", "missing"), ("SET lock:job thief", "taken")]
    {
        let lease = redlock.lock("job").ttl(millis(30_000)).acquire().await.unwrap();
        let lost = lease.lost();
        server.ask(delete);
        let error = tokio::time::timeout(millis(2000), lost).await.expect("notified by push");
        assert_eq!(error.reason(), Some(reason), "{delete}");
        drop(lease);
        server.ask("DEL lock:job");
    }
}

#[tokio::test]
async fn server_restart_without_data_ends_the_lease() {
    let mut server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").ttl(millis(30_000)).acquire().await.unwrap();
    server.kill();
    server.restart();
    let error = tokio::time::timeout(millis(5000), lease.lost()).await.expect("notified");
    assert_eq!(error.reason(), Some("missing"));
}

#[tokio::test]
async fn process_serves_its_waiters_in_order_of_arrival() {
    let server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").acquire().await.unwrap();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..10 {
        let (lock, order) = (redlock.lock("job"), std::sync::Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let lease = lock.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            lease.release().await.unwrap();
        }));
        eventually("a waiter", || redlock.stats().waiting == number + 1).await;
    }
    assert!(redlock.lock("job").try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn lost_reply_does_not_lock_out_the_caller() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    redlock.lock("warm").acquire().await.unwrap().release().await.unwrap();
    proxy.set(Mode::DropReplies);
    let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    proxy.set(Mode::Pass);
    let lease = redlock.lock("job").ttl(millis(20_000)).wait(millis(8000)).acquire().await.unwrap();
    assert!(lease.remaining() > millis(18_000), "validity counts from its own round");
    lease.release().await.unwrap();
}

#[tokio::test]
async fn script_flush_has_no_effect() {
    let server = Server::start();
    let redlock = client([&server]);
    for _ in 0..3 {
        let lease = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap();
        server.ask("SCRIPT FLUSH");
        lease.extend(millis(10_000)).await.unwrap();
        server.ask("SCRIPT FLUSH");
        lease.release().await.unwrap();
        assert_eq!(server.ask("EXISTS lock:job"), ":0");
        server.ask("SCRIPT FLUSH");
    }
}

#[tokio::test]
async fn attach_continues_a_lease_and_refuses_a_wrong_token() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let lease = one.lock("job").ttl(millis(2000)).acquire().await.unwrap();
    let token = lease.token().to_owned();
    assert!(lease.into_handle().detach());
    let lease = two.lock("job").ttl(millis(2000)).attach(&token).await.unwrap();
    eventually("renewals", || two.stats().renewed >= 2).await;
    lease.ensure_held().unwrap();
    let error = one.lock("job").attach("not-the-token").await.unwrap_err();
    assert_eq!(error.reason(), Some("taken"));
    lease.release().await.unwrap();
    let gone = one.lock("job").attach(&token).await.unwrap_err();
    assert_eq!(gone.reason(), Some("missing"));
    // This process never held the lease, so it did not lose it.
    for (error, why) in [(error, "the token of another owner"), (gone, "the key does not exist")] {
        let text = error.to_string();
        assert!(text.contains("not attached, because no lease with this token is held"), "{text}");
        assert!(
            text.contains(why) && !text.contains(" ago") && !text.contains("was lost"),
            "{text}"
        );
    }
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

#[tokio::test]
async fn inspect_and_force_release() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let lease = one.lock("job").acquire().await.unwrap();
    let seen = two.lock("job").inspect().await.unwrap();
    assert!(seen.held && seen.remaining.unwrap() > millis(5000));
    assert_eq!(seen.nodes[0].token.as_deref(), Some(&lease.token()[..8]));
    assert!(two.force_release("job").await.unwrap());
    assert!(!two.force_release("job").await.unwrap());
    let error = tokio::time::timeout(millis(2000), lease.lost()).await.unwrap();
    assert_eq!(error.reason(), Some("missing"));
    assert!(!two.lock("job").inspect().await.unwrap().held);
}

#[tokio::test]
async fn close_ends_waits_and_loses_leases_without_deleting() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let lease = one.lock("job").acquire().await.unwrap();
    let waiting = tokio::spawn(one.lock("job").acquire());
    let waiting_first = tokio::spawn({
        let _ = two.lock("other").acquire().await.unwrap().into_handle();
        one.lock("other").acquire()
    });
    eventually("two waiters", || one.stats().waiting == 2).await;
    assert_eq!(one.leases().len(), 1);
    one.close();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(waiting_first.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(lease.lost().await.reason(), Some("closed"));
    assert_eq!(server.ask("EXISTS lock:job"), ":1");
    assert_eq!(one.lock("job").acquire().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn release_all_releases_only_own_leases() {
    let server = Server::start();
    let redlock = client([&server]);
    let a = redlock.lock("a").acquire().await.unwrap().into_handle();
    let b = redlock.lock("b").acquire().await.unwrap().into_handle();
    assert_eq!(redlock.release_all().await.unwrap(), 2);
    assert!(!a.is_held() && !b.is_held());
    assert_eq!(server.ask("DBSIZE"), ":0");
}

/// Overwrites the key of a lock with data of another type.
fn overwrite(server: &Server, name: &str) {
    assert_eq!(server.ask("RPUSH other theirs"), ":1");
    assert_eq!(server.ask(&format!("RENAME other lock:{name}")), "+OK");
}

#[tokio::test]
async fn key_type_change_loses_the_lease_and_deletes_other_keys() {
    let server = Server::start();
    let redlock = client([&server]);
    for names in [&["a"][..], &["a", "b", "c"]] {
        let lease = redlock.lock(names).ttl(millis(60_000)).acquire().await.unwrap();
        overwrite(&server, "a");
        let lost = tokio::time::timeout(millis(20_000), lease.lost()).await.expect("notified");
        assert_eq!(lost.loss_reason(), Some(LossReason::Taken), "{names:?}");
        assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost, "{names:?}");
        eventually("the other keys are deleted", || server.ask("DBSIZE") == ":1").await;
        assert_eq!(server.ask("DEL lock:a"), ":1");
    }
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
