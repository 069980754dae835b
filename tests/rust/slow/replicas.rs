//! `min_replicas`: a vote counts only once replicas have it.

use std::time::{Duration, Instant};

use redlock::ErrorKind;

use crate::support::replicas::{calls, one_replica, pair};
use crate::support::{Proxy, builder, millis};

/// The old primary is cut off from its replicas but not from its clients, and continues to grant.
// Slow: a replica is frozen, and an upper bound on a duration is the subject.
#[tokio::test]
async fn primary_without_its_replica_renews_no_lease() {
    let (primary, replica) = pair();
    let redlock = one_replica(primary.url());
    let easy = builder([primary.url()]).build().unwrap();
    let lease = redlock.lock("job").ttl(millis(1500)).acquire().await.unwrap();
    let unaware = easy.lock("other").ttl(millis(1500)).acquire().await.unwrap();
    replica.signal(libc::SIGSTOP);
    let cut = Instant::now();
    let error = tokio::time::timeout(millis(6000), lease.lost()).await.expect("notified in time");
    assert_eq!(error.reason(), Some("expired"), "{error}");
    // The last extension before the cut is shorter than this. From then on, the replica may expire the key.
    assert!(cut.elapsed() < millis(1500), "{:?}", cut.elapsed());
    tokio::time::sleep(millis(1000)).await;
    unaware.ensure_held().unwrap();
    replica.signal(libc::SIGCONT);
    let lease = redlock.lock("job").wait(millis(10_000)).acquire().await.unwrap();
    lease.release().await.unwrap();
}

/// A write of an earlier connection that no replica has must not be confirmed over a later connection without writes.
// Slow: a replica is frozen.
#[tokio::test]
async fn extension_without_a_write_is_not_confirmed() {
    let (primary, replica) = pair();
    let proxy = Proxy::to(primary.port);
    let redlock = one_replica(proxy.url());
    let lock = redlock.lock("job").ttl(millis(10_000)).renew(false).node_timeout(millis(500));
    let several = redlock.lock(["a", "b"]).ttl(millis(10_000)).renew(false);
    let several = several.node_timeout(millis(500));
    let leases = [lock.acquire().await.unwrap(), several.acquire().await.unwrap()];
    replica.signal(libc::SIGSTOP);
    for lease in &leases {
        let error = lease.extend(millis(30_000)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    proxy.reset();
    tokio::time::sleep(millis(300)).await;
    // On the server, their keys already live longer than this.
    for lease in &leases {
        let extended = lease.extend(millis(15_000)).await;
        assert_eq!(extended.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    replica.signal(libc::SIGCONT);
    tokio::time::sleep(millis(300)).await;
    for lease in &leases {
        lease.extend(millis(15_000)).await.unwrap();
    }
}

/// Without replicas, each `WAIT` takes its full time on the server, and its connection waits behind it.
// Slow: a replica is frozen, and an upper bound on a duration is the subject.
#[tokio::test]
async fn unconfirmable_votes_do_not_accumulate() {
    let (primary, replica) = pair();
    let redlock = one_replica(primary.url());
    let held = redlock.lock("held").acquire().await.unwrap();
    replica.signal(libc::SIGSTOP);
    let tries = (0..60).map(|at| {
        let lock = redlock.lock(format!("job {at}")).node_timeout(millis(500)).wait(Duration::ZERO);
        async move {
            tokio::time::sleep(millis(10 * at)).await;
            lock.acquire().await.unwrap_err()
        }
    });
    let begun = Instant::now();
    for error in futures_util::future::join_all(tries).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    held.release().await.unwrap();
    assert!(begun.elapsed() < millis(4000), "{:?}", begun.elapsed());
    replica.signal(libc::SIGCONT);
    let lease = redlock.lock("job 1").wait(millis(10_000)).acquire().await.unwrap();
    lease.release().await.unwrap();
}

/// A split vote waits for each node that may decide it. A node without its replica decides nothing.
// Slow: a replica is frozen, and an upper bound on a duration is the subject.
#[tokio::test]
async fn split_vote_waits_once_for_a_node_without_its_replica() {
    let pairs = [pair(), pair(), pair()];
    let nodes = pairs.iter().map(|(primary, _)| primary.url());
    let redlock = builder(nodes).min_replicas(1).restart_guard(Duration::ZERO).build().unwrap();
    let other = builder([pairs[1].0.url()]).build().unwrap();
    let held = other.lock("job").ttl(millis(60_000)).acquire().await.unwrap();
    let lock = redlock.lock("job").ttl(millis(30_000)).node_timeout(millis(2000));
    let lock = lock.wait(Duration::ZERO);
    lock.acquire().await.unwrap().release().await.unwrap();
    pairs[2].1.signal(libc::SIGSTOP);
    let mut times = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        lock.acquire().await.unwrap_err();
        times.push(begun.elapsed());
    }
    assert!(times[0] >= millis(1500), "{times:?}");
    assert!(times[1..].iter().all(|time| *time < millis(1000)), "{times:?}");
    pairs[2].1.signal(libc::SIGCONT);
    held.release().await.unwrap();
    lock.wait(millis(10_000)).acquire().await.unwrap().release().await.unwrap();
}

// Slow: a replica is frozen for half a second.
#[tokio::test]
async fn short_timeout_does_not_cut_off_another_vote() {
    let (primary, replica) = pair();
    let redlock = one_replica(primary.url());
    redlock.lock("warm").acquire().await.unwrap().release().await.unwrap();
    replica.signal(libc::SIGSTOP);
    let pid = replica.pid();
    let woken = std::thread::spawn(move || {
        std::thread::sleep(millis(500));
        // SAFETY: the server outlives the thread, which is joined.
        unsafe { libc::kill(pid, libc::SIGCONT) }
    });
    let once = |name: &str, timeout| {
        let lock = redlock.lock(name).ttl(millis(20_000)).wait(Duration::ZERO);
        lock.node_timeout(millis(timeout)).acquire()
    };
    let (short, long) = tokio::join!(once("short", 60), once("long", 5000));
    woken.join().unwrap();
    assert_eq!(short.unwrap_err().kind(), ErrorKind::Unavailable);
    long.unwrap().release().await.unwrap();
}

/// Checks lengthen nothing and therefore require no replica. Otherwise each check would write, and the write would make
/// the other client check.
// Slow: commands are counted for a second.
#[tokio::test]
async fn two_clients_with_one_token_cause_no_check_loop() {
    let (primary, replica) = pair();
    let (one, two) = (one_replica(primary.url()), one_replica(primary.url()));
    let first = one.lock("job").ttl(millis(30_000)).acquire().await.unwrap();
    let second = two.lock("job").ttl(millis(30_000)).attach(first.token()).await.unwrap();
    let before = calls(&primary, "wait");
    tokio::time::sleep(millis(1000)).await;
    let waits = calls(&primary, "wait") - before;
    assert!(waits < 10, "{waits}");
    // A check still detects a missing key. Neither a push nor a check lengthens a lease.
    drop(replica);
    assert_eq!(primary.ask("PEXPIRE lock:job 25000"), ":1");
    tokio::time::sleep(millis(500)).await;
    assert!(first.is_held() && second.is_held());
    assert_eq!(primary.ask("DEL lock:job"), ":1");
    for lease in [first, second] {
        tokio::time::timeout(millis(2000), lease.lost()).await.expect("notified by its check");
    }
}
