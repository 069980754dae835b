//! `min_replicas`: a vote counts only once replicas have it.

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::replicas::{calls, one_replica, pair};
use crate::support::{RIGHTS, Server, builder, eventually, millis};

/// The error of one round over an existing connection.
pub(crate) async fn refused(redlock: &Redlock) -> redlock::Error {
    let lock = redlock.lock("job").node_timeout(millis(1000)).wait(Duration::ZERO);
    assert!(!lock.inspect().await.unwrap().held);
    lock.acquire().await.unwrap_err()
}

/// Waits for the delete, which may still be in flight when the call times out.
pub(crate) async fn wait_rolled_back(server: &Server) {
    eventually("no key", || server.ask("DBSIZE") == ":0").await;
}

#[tokio::test]
async fn grant_is_on_the_replica() {
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
async fn unreplicated_grant_is_an_error_and_rolled_back() {
    let primary = Server::start();
    let redlock = one_replica(primary.url());
    let error = refused(&redlock).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let cause = error.nodes()[0].error.clone().unwrap();
    assert!(cause.contains("reached 0 of 1 replicas within 0.800 s"), "{cause}");
    wait_rolled_back(&primary).await;
    // The primary's reply alone is enough for a client that requires no replicas.
    let easy = builder([primary.url()]).build().unwrap();
    let lease = easy.lock("job").acquire().await.unwrap();
    // Another client holds it. That result needs no replica.
    assert!(redlock.lock("job").try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn concurrent_votes_share_one_wait_command() {
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

#[tokio::test]
async fn reports_missing_wait_command_at_connect() {
    let without = Server::with(&["--rename-command", "WAIT", ""]);
    let error = one_replica(without.url()).lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
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
async fn reports_missing_waitaof_command_at_connect() {
    let server = Server::start();
    let fsync = builder([server.url()]).fsync(true).build().unwrap();
    let error = fsync.lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Redis 7.2 and Valkey support it"), "{error}");
}
