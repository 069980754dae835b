//! `ping` reports which nodes would grant a lock, for each reason why one does not, and changes nothing.

use std::time::Duration;

use redlock::{Ping, Redlock};

use crate::support::{Cluster, Server, Silent, builder, client, millis, servers};

const TIMEOUT: Duration = Duration::from_secs(10);

async fn ping(redlock: &Redlock) -> Ping {
    redlock.ping(TIMEOUT).await.unwrap()
}

/// The error of the only node.
async fn error_of(redlock: &Redlock) -> String {
    let found = ping(redlock).await;
    assert!(!found.ready && !found.nodes[0].ready, "{found:?}");
    assert_eq!((found.ready_in, found.nodes[0].latency), (None, None), "{found:?}");
    found.nodes[0].error.clone().unwrap()
}

#[tokio::test]
async fn healthy_nodes_are_ready_and_unchanged() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    let lease = redlock.lock("job").acquire().await.unwrap();
    for _ in 0..3 {
        let found = ping(&redlock).await;
        assert_eq!((found.ready, found.ready_in), (true, Some(Duration::ZERO)), "{found:?}");
        let urls: Vec<_> = found.nodes.iter().map(|node| node.url.clone()).collect();
        assert_eq!(urls, redlock.nodes());
        for node in found.nodes {
            assert!(node.ready && node.error.is_none() && node.latency.unwrap() < TIMEOUT);
        }
    }
    assert!(nodes.iter().all(|node| node.ask("DBSIZE") == ":1"), "only the lock's key");
    lease.release().await.unwrap();
}

#[tokio::test]
async fn quorum_decides() {
    let mut nodes = servers(3);
    let redlock = client(&nodes);
    nodes[0].kill();
    let found = ping(&redlock).await;
    assert!(found.ready && !found.nodes[0].ready && found.nodes[1].ready, "{found:?}");
    let error = found.nodes[0].error.as_ref().unwrap();
    assert!(error.contains("cannot connect"), "{error}");
    nodes[2].kill();
    let found = ping(&redlock).await;
    assert_eq!((found.ready, found.ready_in), (false, None), "{found:?}");
}

#[tokio::test]
async fn silent_node_is_reported_at_the_timeout() {
    let nodes = servers(2);
    let silent = Silent::listen();
    let urls = [nodes[0].url(), nodes[1].url(), silent.url()];
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    let found = redlock.ping(millis(300)).await.unwrap();
    assert!(found.ready, "{found:?}");
    let error = found.nodes[2].error.as_ref().unwrap();
    assert!(error.starts_with("no reply within 0.300 s"), "{error}");
}

#[tokio::test]
async fn guarded_node_says_when_it_votes() {
    let nodes = servers(3);
    let redlock = Redlock::builder(nodes.iter().map(Server::url)).build().unwrap();
    let found = ping(&redlock).await;
    assert!(!found.ready, "{found:?}");
    // Started within the restart guard of a minute.
    let wait = found.ready_in.unwrap();
    assert!(wait > Duration::from_secs(20) && wait < Duration::from_secs(63), "{found:?}");
    for node in found.nodes {
        assert!(node.latency.is_some() && !node.ready);
        assert!(node.error.unwrap().contains("grants new leases in "));
    }
}

#[tokio::test]
async fn server_that_cannot_write_is_not_ready() {
    let server = Server::start();
    let redlock = client([&server]);
    assert!(ping(&redlock).await.ready);
    server.ask("CONFIG SET maxmemory 1");
    let error = error_of(&redlock).await;
    assert!(error.contains("OOM"), "{error}");
    server.ask("CONFIG SET maxmemory 0");
    assert!(ping(&redlock).await.ready);
    server.ask("REPLICAOF 127.0.0.1 1");
    let error = error_of(&redlock).await;
    assert!(error.contains("READONLY") || error.contains("replica"), "{error}");
    server.ask("REPLICAOF NO ONE");
    // The client opens another connection, because a failover may have replaced the server.
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    assert!(ping(&redlock).await.ready);
}

#[tokio::test]
async fn each_master_of_a_cluster_is_asked() {
    let cluster = Cluster::start(3, false);
    let redlock = Redlock::builder([cluster.url()]).build().unwrap();
    assert!(ping(&redlock).await.ready);
    cluster.masters[2].ask("CONFIG SET maxmemory 1");
    let error = error_of(&redlock).await;
    assert!(error.contains("OOM"), "{error}");
}

#[tokio::test]
async fn ping_of_a_closed_client_names_no_key() {
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    redlock.close();
    let error = redlock.ping(millis(1000)).await.unwrap_err();
    assert_eq!(format!("{error:?}"), "closed: the client is closed");
    assert_eq!(error.resource(), None);
}

/// Locks of such a client need another `ttl` than the default.
#[tokio::test]
async fn ping_needs_no_valid_default_ttl() {
    let server = Server::start();
    for builder in [
        builder([server.url()]).restart_guard(millis(5000)),
        builder([server.url()]).node_timeout(millis(12_000)),
    ] {
        let redlock = builder.build().unwrap();
        let ping = redlock.ping(millis(10_000)).await.unwrap();
        assert!(ping.nodes[0].latency.is_some(), "{ping:?}");
        assert!(!redlock.force_release("job").await.unwrap());
    }
}
