//! Cases with the same behaviour.

mod client;
mod extended;
mod programs;

use std::time::Duration;

use redlock::ErrorKind;

use super::{all_gone, all_have, on, three};
use crate::support::{Cluster, Server, builder, millis};

const TEN_SECONDS: Duration = Duration::from_secs(10);

#[tokio::test]
async fn lock_get_unique_id_uniqueness() {
    let (_nodes, client) = three();
    let leases = [
        client.lock("lock:one").acquire().await.unwrap(),
        client.lock("lock:two").acquire().await.unwrap(),
    ];
    assert_ne!(leases[0].token(), leases[1].token());
}

#[tokio::test]
async fn lock_direct_unlock_succeeds() {
    let (node, token) = (Server::start(), "0123456789abcdef");
    node.ask(&format!("SET lock:job {token}"));
    let attached = on([&node]).lock("lock:job").attach(token).await.unwrap();
    assert!(attached.is_held());
    attached.release().await.unwrap();
    assert_eq!(node.ask("EXISTS lock:job"), ":0");
}

#[tokio::test]
async fn lock_direct_lock_succeeds() {
    let node = Server::start();
    node.ask("SET lock:job other");
    let lock = on([&node]).lock("lock:job");
    assert!(lock.try_acquire().await.unwrap().is_none());
    node.ask("DEL lock:job");
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn lock_lock_unlock() {
    let (nodes, one) = three();
    let two = on(&nodes);
    let lease = one.lock("lock:job").ttl(TEN_SECONDS).acquire().await.unwrap();
    assert!(lease.remaining() > Duration::ZERO);
    let error =
        two.lock("lock:job").ttl(TEN_SECONDS).wait(millis(400)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    lease.release().await.unwrap();
    let next = two.lock("lock:job").ttl(TEN_SECONDS).wait(TEN_SECONDS).acquire().await.unwrap();
    assert!(next.remaining() > Duration::ZERO);
}

#[tokio::test]
async fn guard_release_unlocks() {
    let (nodes, client) = three();
    let lock = client.lock("lock:job").ttl(TEN_SECONDS).wait(TEN_SECONDS);
    let lease = lock.acquire().await.unwrap();
    all_have(&nodes, "lock:job", lease.token());
    lease.release().await.unwrap();
    all_gone(&nodes, "lock:job");
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn redis_value_matches_lock_value() {
    let (nodes, client) = three();
    let lease = client.lock("lock:job").ttl(TEN_SECONDS).acquire().await.unwrap();
    all_have(&nodes, "lock:job", lease.token());
}

#[tokio::test]
async fn is_not_freed_after_lock() {
    let (_nodes, client) = three();
    let lock = client.lock("lock:job").ttl(TEN_SECONDS);
    let lease = lock.acquire().await.unwrap();
    assert!(lease.is_held() && lock.inspect().await.unwrap().held);
}

#[tokio::test]
async fn is_freed_after_manual_unlock() {
    let (_nodes, client) = three();
    let lock = client.lock("lock:job").ttl(TEN_SECONDS);
    let lease = lock.acquire().await.unwrap().into_handle();
    lease.release().await.unwrap();
    assert!(!lease.is_held() && lease.is_released());
    assert!(!lock.inspect().await.unwrap().held);
}

#[tokio::test]
async fn lock_send_lock_manager() {
    let (nodes, client) = three();
    let lease = client.lock("lock:job").ttl(TEN_SECONDS).acquire().await.unwrap();
    let (send, mut receive) = tokio::sync::mpsc::channel(32);
    send.send(("some info", lease, client)).await.unwrap();
    let other = std::thread::spawn(move || {
        let (_, lease, client) = receive.blocking_recv().unwrap();
        lease.release_blocking().unwrap();
        client.lock("lock:job").acquire_blocking().unwrap().release_blocking().unwrap();
    });
    other.join().unwrap();
    all_gone(&nodes, "lock:job");
}

#[tokio::test]
async fn lock_state_in_multiple_threads() {
    let (_nodes, client) = three();
    let first = client.lock("lock:one").ttl(TEN_SECONDS);
    let lease = first.acquire().await.unwrap().into_handle();
    let (send, mut receive) = tokio::sync::mpsc::channel(32);
    send.send((lease.clone(), client.clone())).await.unwrap();
    let other = std::thread::spawn(move || {
        let (lease, client) = receive.blocking_recv().unwrap();
        lease.release_blocking().unwrap();
        client
    });
    let client = other.join().unwrap();
    assert!(lease.is_released() && !first.inspect().await.unwrap().held);

    let second = client.lock("lock:two").ttl(TEN_SECONDS);
    second.acquire().await.unwrap().release().await.unwrap();
    assert!(!second.inspect().await.unwrap().held);
}

#[tokio::test]
async fn cluster_lock_lifecycle() {
    let cluster = Cluster::start(3, false);
    let seed = format!("redis+cluster://127.0.0.1:{}", cluster.masters[0].port);
    let client = builder([seed]).key_prefix("").build().unwrap();
    let lease = client.lock("lock:lifecycle").ttl(TEN_SECONDS).acquire().await.unwrap();
    let owner = &cluster.masters[cluster.owner_of("lock:lifecycle")];
    assert_eq!(owner.ask("GET lock:lifecycle"), lease.token());
    lease.extend(TEN_SECONDS).await.unwrap();
    assert!(lease.remaining() > Duration::ZERO);
    lease.release().await.unwrap();
    assert_eq!(owner.ask("EXISTS lock:lifecycle"), ":0");
}
