//! Properties of a client.

use std::time::Duration;

use redis::Client;
use redlock::{Builder, Error, ErrorKind, Lease, LeaseHandle, Lock, Redlock};

use crate::replay::three;
use crate::support::{Server, millis, servers};

fn is_one<T: Send + Sync + Unpin>() {}

#[test]
fn is_normal() {
    is_one::<Redlock>();
    is_one::<Lock>();
    is_one::<Lease>();
    is_one::<LeaseHandle>();
    is_one::<Error>();
}

#[test]
fn new_cluster_validates_seed_nodes() {
    for seed in ["not-a-redis-uri", "redis+cluster://"] {
        let error = Redlock::builder([seed]).build().expect_err(seed);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{seed}: {error}");
    }
}

#[test]
fn lock_ttl_duration_conversion_error() {
    let (_nodes, client) = three();
    let error = client.lock("lock:job").ttl(Duration::from_secs(u64::MAX)).acquire_blocking();
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
}

/// A lock is granted with `quorum` of the nodes, and refused with fewer.
async fn quorum_is(mut nodes: Vec<Server>, client: Redlock, quorum: usize) {
    assert_eq!(client.nodes().len(), nodes.len());
    let lock = client.lock("lock:job").wait(Duration::from_secs(10));
    while nodes.len() > quorum {
        nodes.pop().unwrap().kill();
    }
    lock.acquire().await.unwrap().release().await.unwrap();
    nodes.pop().unwrap().kill();
    let error = lock.wait(millis(300)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// A client for the servers of `redis` crate clients.
fn from_clients(nodes: &[Server]) -> Redlock {
    let theirs: Vec<Client> = nodes.iter().map(|node| Client::open(node.url()).unwrap()).collect();
    let builder = Builder::from_connection_info(theirs.iter().map(Client::get_connection_info));
    builder.unwrap().restart_guard(Duration::ZERO).build().unwrap()
}

#[tokio::test]
async fn lock_valid_instance() {
    let (nodes, client) = three();
    quorum_is(nodes, client, 2).await;
}

#[tokio::test]
async fn lock_manager_from_clients_valid_instance() {
    let nodes = servers(3);
    let client = from_clients(&nodes);
    quorum_is(nodes, client, 2).await;
}

#[tokio::test]
async fn lock_manager_from_clients_partial_quorum() {
    let nodes = servers(2);
    let client = from_clients(&nodes);
    quorum_is(nodes, client, 2).await;
}

#[tokio::test]
async fn example_from_clients() {
    let nodes = servers(3);
    super::programs::basic(&from_clients(&nodes)).await.unwrap();
}
