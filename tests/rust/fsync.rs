//! `fsync`: a vote counts only once it is on the disk of the server and on the disks of its replicas.
//!
//! Redis 7.2 and later and Valkey support it: `make test-servers`.

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::replicas::{refused, wait_rolled_back};
use crate::support::replicas::calls;
use crate::support::{Server, builder, eventually, millis};

fn fsync_client(url: String) -> Redlock {
    builder([url]).fsync(true).build().unwrap()
}

#[tokio::test]
async fn fsync_grant_survives_a_server_crash() {
    let aof = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let mut server = Server::with(&aof);
    let redlock = fsync_client(server.url());
    for at in 1..=3 {
        let lease = redlock.lock(format!("job {at}")).ttl(millis(60_000)).acquire().await.unwrap();
        // The first one belongs to the handshake.
        assert!(calls(&server, "waitaof") > 1, "the client did not request fsync");
        server.kill();
        server.restart();
        assert_eq!(server.ask(&format!("GET \"lock:job {at}\"")), lease.token());
        lease.detach();
    }
}

/// A vote that is sent while another one waits for the disk runs after that, and needs the sync after it.
#[tokio::test]
async fn votes_have_time_for_two_syncs() {
    let server = Server::with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let redlock = fsync_client(server.url());
    let lock = |name: String| redlock.lock(name).wait(Duration::ZERO);
    lock("warm".to_owned()).acquire().await.unwrap().release().await.unwrap();
    for at in 1..=3 {
        let first = tokio::spawn(lock(format!("first {at}")).acquire());
        let exists = format!("EXISTS \"lock:first {at}\"");
        eventually("a vote", || server.ask(&exists) == ":1").await;
        let second = lock(format!("second {at}")).acquire().await.unwrap();
        first.await.unwrap().unwrap().release().await.unwrap();
        second.release().await.unwrap();
    }
}

#[tokio::test]
async fn vote_without_fsync_is_an_error() {
    let never = ["--appendonly", "yes", "--appendfsync", "no"];
    let (without, never) = (Server::start(), Server::with(&never));
    let error = fsync_client(without.url()).lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("appendonly yes"), "{error}");
    let error = refused(&fsync_client(never.url())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let cause = error.nodes()[0].error.clone().unwrap();
    assert!(cause.contains("not on the server's disk within 0.800 s"), "{cause}");
    wait_rolled_back(&never).await;
}

/// With `always`, the write is on the server's disk before the reply. The client does not ask for the replica's disk.
#[tokio::test]
async fn fsync_and_min_replicas_require_replica_fsync() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let primary = Server::with(&[&always[..], &["--repl-diskless-sync-delay", "0"]].concat());
    let _replica = Server::replica_of(&primary);
    fsync_client(primary.url()).lock("alone").acquire().await.unwrap().release().await.unwrap();
    let both = builder([primary.url()]).fsync(true).min_replicas(1).build().unwrap();
    let error = refused(&both).await;
    let cause = error.nodes()[0].error.clone().unwrap();
    assert!(cause.contains("reached 0 of 1 replica disks within 0.800 s"), "{cause}");
}
