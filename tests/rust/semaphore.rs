//! Semaphores: the limit over one node and several, permits, refusals, wake-ups, the local queue, keys, and options.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlock::{Error, ErrorKind, NodeState, Redlock};

use crate::support::{Server, client, servers};

const TTL: Duration = Duration::from_secs(20);

/// The URL of a new store in memory.
fn memory_url() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("memory://semaphore-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Clients of the same nodes: one in memory, one server, and three servers.
fn setups() -> (Vec<Server>, Vec<[Redlock; 3]>) {
    let (memory, nodes) = (memory_url(), servers(4));
    let in_memory = || Redlock::builder([&*memory]).build().unwrap();
    let setups = vec![
        [in_memory(), in_memory(), in_memory()],
        [client(&nodes[..1]), client(&nodes[..1]), client(&nodes[..1])],
        [client(&nodes[1..]), client(&nodes[1..]), client(&nodes[1..])],
    ];
    (nodes, setups)
}

async fn refused(redlock: &Redlock, limit: u32, permits: u32) -> Error {
    let lock = redlock.semaphore("pool", limit).permits(permits).wait(Duration::ZERO);
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    error
}

#[tokio::test]
async fn as_many_leases_as_permits() {
    let (_nodes, setups) = setups();
    for clients in setups {
        for round in 0..3 {
            let pool = |at: usize| clients[at % 3].semaphore("pool", 3).ttl(TTL);
            let mut leases = Vec::new();
            for at in 0..3 {
                leases
                    .push(pool(at + round).try_acquire().await.unwrap().expect("a permit is free"));
            }
            let mut keys: Vec<_> = leases.iter().flat_map(|lease| lease.keys().to_vec()).collect();
            keys.sort();
            assert_eq!(keys, ["{lock:pool}#0", "{lock:pool}#1", "{lock:pool}#2"]);
            assert!(pool(round).try_acquire().await.unwrap().is_none());
            let error = refused(&clients[round], 3, 1).await;
            assert!(
                error.to_string().contains("all 3 permits are taken, and the first"),
                "{error}"
            );
            let found = pool(0).inspect().await.unwrap();
            assert_eq!((found.held, found.taken, found.limit), (true, 3, 3));
            assert!(found.remaining.unwrap() > TTL / 2);
            leases.pop().unwrap().release().await.unwrap();
            let found = pool(0).inspect().await.unwrap();
            assert_eq!((found.held, found.taken, found.remaining), (false, 2, None));
            leases.push(pool(1).acquire().await.unwrap());
            for lease in leases {
                lease.extend(TTL * 2).await.unwrap();
                lease.release().await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn crowd_never_exceeds_the_limit_and_is_served() {
    let (_nodes, setups) = setups();
    for clients in setups {
        let (holders, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let crowd = (0..12).map(|at| {
            let pool = clients[at % 3].semaphore("pool", 3).ttl(TTL).wait(TTL * 2);
            let (holders, most) = (Arc::clone(&holders), Arc::clone(&most));
            tokio::spawn(async move {
                for _ in 0..8 {
                    let lease = pool.acquire().await.unwrap();
                    most.fetch_max(holders.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    holders.fetch_sub(1, Ordering::SeqCst);
                    lease.release().await.unwrap();
                }
            })
        });
        for caller in crowd.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        let most = most.load(Ordering::SeqCst);
        assert!((1..=3).contains(&most), "{most}");
        assert_eq!(clients[0].semaphore("pool", 3).inspect().await.unwrap().taken, 0);
    }
}

#[tokio::test]
async fn dead_node_of_three_closes_no_permit() {
    let mut nodes = servers(3);
    let (one, two) = (client(&nodes), client(&nodes));
    nodes[1].kill();
    for _ in 0..5 {
        let mut leases = Vec::new();
        for at in 0..4 {
            let pool = [&one, &two][at % 2].semaphore("pool", 4).ttl(TTL).wait(Duration::ZERO);
            leases.push(pool.acquire().await.unwrap());
        }
        let error = refused(&one, 4, 1).await;
        assert!(error.to_string().contains("all 4 permits are taken"), "{error}");
        for lease in leases {
            lease.release().await.unwrap();
        }
    }
}

/// A vote of a client that died has the other permit on one node. The first two refusals do not show that a quorum can
/// grant it.
#[tokio::test]
async fn leftover_on_a_minority_closes_no_permit() {
    let nodes = servers(3);
    let (one, two) = (client(&nodes), client(&nodes));
    let taken = one.semaphore("pool", 1).ttl(TTL).acquire().await.unwrap();
    assert_eq!(taken.keys(), ["{lock:pool}#0"]);
    for round in 0..12 {
        let node = &nodes[round % 3];
        node.ask("SET {lock:pool}#1 junk");
        let lock = two.semaphore("pool", 2).ttl(TTL);
        let lease = lock.try_acquire().await.unwrap().expect("a quorum can grant it");
        assert_eq!(lease.keys(), ["{lock:pool}#1"]);
        lease.release().await.unwrap();
        node.ask("DEL {lock:pool}#1");
    }
}

#[tokio::test]
async fn scripts_that_a_server_lost_are_loaded_again() {
    let nodes = servers(1);
    let redlock = client(&nodes);
    for _ in 0..3 {
        let lease = redlock.semaphore("pool", 2).acquire().await.unwrap();
        nodes[0].ask("SCRIPT FLUSH");
        lease.extend(TTL).await.unwrap();
        nodes[0].ask("SCRIPT FLUSH");
        lease.release().await.unwrap();
        assert_eq!(nodes[0].ask("DBSIZE"), ":0");
    }
}

#[tokio::test]
async fn inspection_shows_a_permit_of_another_type_as_taken() {
    for count in [1, 3] {
        let nodes = servers(count);
        let redlock = client(&nodes);
        for node in &nodes {
            node.ask("HSET {lock:pool}#1 field value");
        }
        let found = redlock.semaphore("pool", 2).inspect().await.unwrap();
        assert_eq!((found.held, found.taken, found.label), (false, 1, None));
        for node in &found.nodes {
            let is_foreign = node.key == "{lock:pool}#1";
            let state = if is_foreign { NodeState::Held } else { NodeState::Free };
            assert_eq!((node.state, &node.token, &node.error), (state, &None, &None), "{node:?}");
        }
        let _other = redlock.semaphore("pool", 2).ttl(TTL).acquire().await.unwrap();
        let found = redlock.semaphore("pool", 2).inspect().await.unwrap();
        assert_eq!((found.held, found.taken), (true, 2));
        assert!(found.remaining.is_some_and(|remaining| remaining <= TTL), "{found:?}");
        // The name of such a lock is wrong.
        nodes.iter().for_each(|node| drop(node.ask("HSET lock:job field value")));
        let error = redlock.lock("job").inspect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[tokio::test]
async fn mistakes_are_refused_before_anything_is_sent() {
    let silent = crate::support::Silent::listen();
    let redlock = crate::support::builder([silent.url()]).build().unwrap();
    let pool = |limit| redlock.semaphore("pool", limit);
    for (lock, text) in [
        (pool(0), "limit must be 1 to 1000 (got 0)"),
        (pool(1001), "limit must be 1 to 1000 (got 1001)"),
        (pool(3).permits(0), "permits must be 1 to the limit of 3 (got 0)"),
        (pool(3).permits(4), "permits must be 1 to the limit of 3 (got 4)"),
        (pool(3).fencing(true), "fencing is not available for a semaphore"),
        (
            redlock.semaphore(["a", "b"], 3),
            "a semaphore has one name (got 2). Use one semaphore per name",
        ),
        (redlock.semaphore("a}b", 3), "cannot have permits"),
        (redlock.lock("job").permits(2), "permits is an option of a semaphore (got 2)"),
        (redlock.lock("{a}#3"), "is reserved for the permits of a semaphore"),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let error = pool(3).attach("0123456789abcdef0123456789abcdef").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!silent.called(), "something was sent");
}
