//! Semaphores whose nodes disagree, and options that only Rust accepts for every kind of lock.

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::{client, servers};

const TTL: Duration = Duration::from_secs(20);

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
        let error = one.semaphore("pool", 4).wait(Duration::ZERO).acquire().await.unwrap_err();
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
async fn options_of_another_kind_of_lock_are_refused() {
    let redlock = Redlock::builder(["memory://semaphore"]).build().unwrap();
    let config = redlock.rwlock("cfg");
    let permits = "permits is an option of a semaphore (got 2)";
    for (lock, text) in [
        (redlock.semaphore("pool", 3).fencing(true), "fencing is not available for a semaphore"),
        (redlock.lock("job").permits(2), permits),
        (config.write().permits(2), permits),
        (config.read().fencing(true), "fencing is not available for readers"),
        (config.read().min_hold(TTL), "min_hold is not available for readers"),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}
