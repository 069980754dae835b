//! `min_replicas`: a vote counts once replicas have it, and not before.

use std::time::{Duration, Instant};

use redlock::{ErrorKind, Redlock};

use crate::support::{Proxy, RIGHTS, Server, builder, millis, without_scripts};

/// A primary whose replica, if it runs, has everything within 0.1 s.
fn pair() -> (Server, Server) {
    let primary = Server::with(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::replica_of(&primary);
    (primary, replica)
}

fn one_replica(url: String) -> Redlock {
    builder([url]).min_replicas(1).build().unwrap()
}

/// What one round says over a connection that is there already.
pub(crate) async fn refused(redlock: &Redlock) -> redlock::Error {
    let lock = redlock.lock("job").node_timeout(millis(1000)).wait(Duration::ZERO);
    assert!(!lock.inspect().await.unwrap().held);
    lock.acquire().await.unwrap_err()
}

/// The delete may still be on its way when the call ends, as its time is over.
pub(crate) async fn taken_back(server: &Server) {
    let end = Instant::now() + Duration::from_secs(5);
    while server.ask("DBSIZE") != ":0" {
        assert!(Instant::now() < end, "the key is still there");
        tokio::time::sleep(millis(10)).await;
    }
}

/// How often the server was asked for this.
pub(crate) fn calls(server: &Server, command: &str) -> usize {
    let said = server.info("commandstats", &format!("cmdstat_{command}"));
    let number = |said: &str| said.strip_prefix("calls=")?.split(',').next()?.parse().ok();
    said.as_deref().and_then(number).unwrap_or(0)
}

#[tokio::test]
async fn what_is_granted_is_on_the_replica() {
    let (primary, replica) = pair();
    let redlock = one_replica(primary.url());
    for at in 0..50 {
        let lease = redlock.lock(format!("job {at}")).ttl(millis(5000)).acquire().await.unwrap();
        let get = |ask: &str| replica.ask(&format!("{ask} \"lock:job {at}\""));
        assert_eq!(get("GET"), lease.token());
        lease.extend(millis(60_000)).await.unwrap();
        let left: u64 = get("PTTL")[1..].parse().unwrap();
        assert!(left > 10_000, "{left}");
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_grant_that_no_replica_has_is_a_fault_and_is_taken_back() {
    let primary = Server::start();
    let redlock = one_replica(primary.url());
    let error = refused(&redlock).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let cause = error.nodes()[0].error.clone().unwrap();
    assert!(cause.contains("reached 0 of 1 replicas within 0.800 s"), "{cause}");
    taken_back(&primary).await;
    // Its own word is enough for somebody who asks for no more.
    let easy = builder([primary.url()]).build().unwrap();
    let lease = easy.lock("job").acquire().await.unwrap();
    // Held by another, which needs no replica to be told.
    assert!(redlock.lock("job").try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
}

/// The old primary is cut off from its replicas, not from its clients: it goes on granting.
#[tokio::test]
async fn a_primary_without_its_replica_renews_nobody() {
    let (primary, replica) = pair();
    let redlock = one_replica(primary.url());
    let easy = builder([primary.url()]).build().unwrap();
    let lease = redlock.lock("job").ttl(millis(1500)).acquire().await.unwrap();
    let unaware = easy.lock("other").ttl(millis(1500)).acquire().await.unwrap();
    replica.signal(libc::SIGSTOP);
    let cut = Instant::now();
    let error = tokio::time::timeout(millis(6000), lease.lost()).await.expect("told in time");
    assert_eq!(error.reason(), Some("expired"), "{error}");
    // The last extension before the cut lasts no longer than this: the replica may expire the key from then on.
    assert!(cut.elapsed() < millis(1500), "{:?}", cut.elapsed());
    tokio::time::sleep(millis(1000)).await;
    unaware.ensure_held().unwrap();
    replica.signal(libc::SIGCONT);
    let lease = redlock.lock("job").wait(millis(10_000)).acquire().await.unwrap();
    lease.release().await.unwrap();
}

/// What an earlier connection wrote and no replica has must not be confirmed over a later one, which wrote nothing.
#[tokio::test]
async fn an_extension_that_lengthens_nothing_is_not_confirmed_by_what_others_wrote() {
    let (primary, replica) = pair();
    let proxy = Proxy::to(primary.port);
    let redlock = one_replica(proxy.url());
    let lock = redlock.lock("job").ttl(millis(10_000)).renew(false).node_timeout(millis(500));
    let lease = lock.acquire().await.unwrap();
    let mut leases = vec![lease];
    if !without_scripts() {
        let several = redlock.lock(["a", "b"]).ttl(millis(10_000)).renew(false);
        leases.push(several.node_timeout(millis(500)).acquire().await.unwrap());
    }
    replica.signal(libc::SIGSTOP);
    for lease in &leases {
        let error = lease.extend(millis(30_000)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    proxy.reset();
    tokio::time::sleep(millis(300)).await;
    // On the server they live for longer than this already.
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

#[tokio::test]
async fn votes_that_come_together_share_one_question() {
    let (primary, _replica) = pair();
    let redlock = one_replica(primary.url());
    redlock.lock("warm").acquire().await.unwrap().release().await.unwrap();
    let before = calls(&primary, "wait");
    let all = (0..300).map(|at| redlock.lock(format!("job {at}")).acquire());
    let leases = futures_util::future::join_all(all).await;
    let asked = calls(&primary, "wait") - before;
    assert!(leases.iter().all(Result::is_ok));
    assert!((1..150).contains(&asked), "{asked} for 300 votes");
}

/// Where replicas are away, each question takes all of its time on the server, and its connection waits behind it.
#[tokio::test]
async fn votes_that_cannot_be_confirmed_do_not_pile_up() {
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

#[tokio::test]
async fn a_neighbours_short_time_does_not_cut_a_vote_short() {
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

#[tokio::test]
async fn a_server_that_cannot_confirm_is_told_of_at_connect() {
    let without = Server::with(&["--rename-command", "WAIT", ""]);
    let error = one_replica(without.url()).lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("min_replicas needs WAIT"), "{error}");
    let server = Server::start();
    server.ask(&format!("ACL SETUSER app reset on >s3cret-word {RIGHTS} -wait"));
    let user = one_replica(format!("redis://app:s3cret-word@127.0.0.1:{}", server.port));
    let error = user.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let cause = error.nodes()[0].error.clone().unwrap();
    assert!(cause.contains("min_replicas needs WAIT") && cause.contains("NOPERM"), "{cause}");
    assert!(!cause.contains("s3cret-word"));
}

#[cfg(not(feature = "waitaof"))]
#[tokio::test]
async fn a_server_that_knows_of_no_disk_is_told_of_at_connect() {
    let server = Server::start();
    let fsync = builder([server.url()]).fsync(true).build().unwrap();
    let error = fsync.lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("Redis 7.2 and Valkey have it"), "{error}");
}

/// Checks count for nothing longer, and so ask no replica: each would write for that, and have the other one ask.
#[tokio::test]
async fn two_clients_of_one_token_leave_each_other_in_peace() {
    let (primary, replica) = pair();
    let (one, two) = (one_replica(primary.url()), one_replica(primary.url()));
    let first = one.lock("job").ttl(millis(30_000)).acquire().await.unwrap();
    let second = two.lock("job").ttl(millis(30_000)).attach(first.token()).await.unwrap();
    let before = calls(&primary, "wait");
    tokio::time::sleep(millis(1000)).await;
    let waits = calls(&primary, "wait") - before;
    assert!(waits < 10, "{waits}");
    // A check is told of what is gone all the same, and neither by push nor by check does a lease get longer.
    drop(replica);
    assert_eq!(primary.ask("PEXPIRE lock:job 25000"), ":1");
    tokio::time::sleep(millis(500)).await;
    assert!(first.held() && second.held());
    assert_eq!(primary.ask("DEL lock:job"), ":1");
    for lease in [first, second] {
        tokio::time::timeout(millis(2000), lease.lost()).await.expect("told by its check");
    }
}
