//! Read/write locks: who excludes whom over one node and several, turns, dead readers, keys, and options.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlock::{Error, ErrorKind, Lock, Redlock};

use crate::support::{Server, Silent, builder, client, eventually, servers};

pub(crate) const TTL: Duration = Duration::from_secs(20);

/// The URL of a new store in memory.
fn memory_url() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("memory://rwlock-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
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

/// The counts of readers and of writers that have the lock now.
#[derive(Default)]
struct Holders([AtomicUsize; 2], AtomicUsize);

impl Holders {
    async fn hold(&self, is_writer: bool) {
        let [readers, writers] = &self.0;
        let mine = if is_writer { writers } else { readers };
        mine.fetch_add(1, Ordering::SeqCst);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let (readers, writers) = (readers.load(Ordering::SeqCst), writers.load(Ordering::SeqCst));
        assert!(writers == 0 || (readers, writers) == (0, 1), "{readers} and {writers}");
        self.1.fetch_max(readers, Ordering::SeqCst);
        mine.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn crowd_is_served_and_writers_are_alone() {
    let (_nodes, setups) = setups();
    for clients in setups {
        let holders = Arc::new(Holders::default());
        let crowd = (0..12).map(|at| {
            let (redlock, holders) = (&clients[at % 3], Arc::clone(&holders));
            let lock = match at % 4 {
                0 => write(redlock),
                1 if at == 1 => redlock.lock("cfg").ttl(TTL),
                _ => read(redlock),
            };
            let lock = lock.wait(TTL * 2);
            tokio::spawn(async move {
                for _ in 0..8 {
                    let lease = lock.acquire().await.unwrap();
                    holders.hold(at % 4 == 0 || at == 1).await;
                    lease.release().await.unwrap();
                }
            })
        });
        for caller in crowd.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        assert_eq!(read(&clients[0]).inspect().await.unwrap().taken, 0);
        assert!(holders.1.load(Ordering::SeqCst) > 1, "readers never shared it");
    }
}

#[tokio::test]
async fn callers_of_one_client_read_together_and_in_order() {
    let redlock = Redlock::builder([&*memory_url()]).build().unwrap();
    let writer = write(&redlock).acquire().await.unwrap();
    let readers = [(); 3].map(|()| tokio::spawn(read(&redlock).wait(TTL).acquire()));
    eventually("the readers wait", || redlock.stats().waiting == 3).await;
    let last = tokio::spawn(write(&redlock).wait(TTL).acquire());
    eventually("the writer waits", || redlock.stats().waiting == 4).await;
    writer.release().await.unwrap();
    let mut leases = Vec::new();
    for reader in readers {
        leases.push(reader.await.unwrap().unwrap());
    }
    assert!(leases.iter().all(|lease| lease.is_held()) && !last.is_finished());
    drop(leases);
    last.await.unwrap().unwrap().release().await.unwrap();
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

#[tokio::test]
async fn mistakes_are_refused_before_anything_is_sent() {
    let silent = Silent::listen();
    let redlock = builder([silent.url()]).build().unwrap();
    let one = redlock.rwlock("cfg");
    let several = redlock.rwlock(["a", "b"]);
    let names = "a read/write lock has one name (got 2). Use one read/write lock per name";
    for (lock, text) in [
        (several.read(), names),
        (several.write(), names),
        (one.read().fencing(true), "fencing is not available for readers"),
        (one.read().min_hold(Duration::from_secs(1)), "min_hold is not available for readers"),
        (one.write().permits(2), "permits is an option of a semaphore (got 2)"),
        (redlock.rwlock("a}b").read(), "cannot have readers"),
        (redlock.lock("{a}:turn"), "is reserved for the turn of another lock"),
        (redlock.lock("{a}:readers"), "is reserved for the readers of another lock"),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(!silent.called(), "something was sent");
}
