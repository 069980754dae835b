//! Read/write locks: turns, a dead node, and dead readers.

use std::time::Duration;

use redlock::{Error, ErrorKind, Lock, Redlock};

use crate::support::{Server, client, eventually, servers};

pub(crate) const TTL: Duration = Duration::from_secs(20);

pub(crate) fn read(redlock: &Redlock) -> Lock {
    redlock.rwlock("cfg").read().ttl(TTL)
}

pub(crate) fn write(redlock: &Redlock) -> Lock {
    redlock.rwlock("cfg").write().ttl(TTL)
}

async fn refused(lock: Lock) -> Error {
    let error = lock.wait(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    error
}

/// The remaining TTL of a key in ms. Negative if the key does not exist.
fn remaining_ttl(server: &Server, key: &str) -> i64 {
    server.ask(&format!("PTTL {key}")).trim_start_matches(':').parse().unwrap()
}

async fn turn_is_set(nodes: &[Server], side: &str) {
    let is_set = |node: &Server| node.ask("GET {lock:cfg}:turn").starts_with(side);
    eventually("the turn is set", || nodes.iter().all(is_set)).await;
}

#[tokio::test]
async fn writer_follows_the_turn_of_readers_that_overlap() {
    for count in [1, 3] {
        let nodes = servers(count);
        let [one, two] = [(); 2].map(|()| client(&nodes));
        let reader = read(&one).acquire().await.unwrap();
        nodes.iter().for_each(|node| drop(node.ask("SET {lock:cfg}:turn s300 PX 300")));
        let waiting = tokio::spawn(write(&two).wait(TTL).acquire());
        // Although no change of the lock key wakes it.
        turn_is_set(&nodes, "w").await;
        reader.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn dead_node_of_three_stops_neither_side() {
    let mut nodes = servers(3);
    let [one, two] = [(); 2].map(|()| client(&nodes));
    nodes[1].kill();
    for _ in 0..3 {
        let readers = [read(&one).acquire().await.unwrap(), read(&two).acquire().await.unwrap()];
        refused(write(&two)).await;
        for reader in readers {
            reader.release().await.unwrap();
        }
        let writer = write(&two).wait(TTL).acquire().await.unwrap();
        refused(read(&one)).await;
        writer.release().await.unwrap();
    }
}

#[tokio::test]
async fn dead_reader_expires_beside_live_ones() {
    for count in [1, 3] {
        let nodes = servers(count);
        let [one, two] = [(); 2].map(|()| client(&nodes));
        let short = Duration::from_millis(300);
        let dead = one.rwlock("cfg").read().ttl(short).renew(false).acquire().await.unwrap();
        let live = read(&one).acquire().await.unwrap();
        assert!(dead.detach());
        refused(write(&two)).await;
        live.release().await.unwrap();
        // The key ends with the dead reader, and not with the one that had a longer TTL.
        let within = |node: &Server| remaining_ttl(node, "lock:cfg") <= 1330;
        eventually("the key is shortened", || nodes.iter().all(within)).await;
        let waiting = write(&two).wait(TTL).acquire().await.unwrap();
        waiting.release().await.unwrap();
    }
}
