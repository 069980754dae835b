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

#[tokio::test]
async fn readers_share_and_exclude_writers_and_mutexes() {
    let (_nodes, setups) = setups();
    for [one, two, three] in setups {
        let readers =
            [read(&one).acquire().await, read(&two).acquire().await, read(&two).acquire().await];
        let readers = readers.map(Result::unwrap);
        for lock in [write(&three), three.lock("cfg").ttl(TTL)] {
            let text = refused(lock).await.to_string();
            assert!(text.contains("readers hold it. The last one ends in at most "), "{text}");
        }
        let found = read(&three).inspect().await.unwrap();
        assert_eq!((found.held, found.mode, &found.label), (true, Some("read"), &None));
        assert!(found.remaining.unwrap() > TTL / 2);
        assert!(found.nodes.iter().all(|node| node.token.is_none()), "{found:?}");
        let [first, second, third] = readers;
        first.release().await.unwrap();
        second.extend(TTL * 2).await.unwrap();
        second.release().await.unwrap();
        assert!(write(&three).try_acquire().await.unwrap().is_none());
        third.release().await.unwrap();
        assert_eq!(read(&three).inspect().await.unwrap().mode, None);
        assert!(three.lock("cfg").try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn writers_and_mutexes_exclude_everyone() {
    let (_nodes, setups) = setups();
    for [one, two, three] in setups {
        let writer = write(&one).label("web-3").acquire().await.unwrap();
        let text = refused(read(&two)).await.to_string();
        assert!(text.contains("a writer (web-3) holds it, and expires in "), "{text}");
        let text = refused(write(&two)).await.to_string();
        assert!(text.contains("it is already held by web-3, and expires in "), "{text}");
        refused(three.lock("cfg").ttl(TTL)).await;
        let found = write(&two).inspect().await.unwrap();
        assert_eq!((found.mode, found.label.as_deref()), (Some("write"), Some("web-3")));
        writer.extend(TTL).await.unwrap();
        writer.release().await.unwrap();
        let mutex = three.lock("cfg").ttl(TTL).acquire().await.unwrap();
        refused(read(&one)).await;
        refused(write(&one)).await;
        mutex.release().await.unwrap();
        read(&one).acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn released_side_wakes_the_other() {
    let (_nodes, setups) = setups();
    for [one, two, three] in setups {
        let reader = read(&one).acquire().await.unwrap();
        let waiting = tokio::spawn(write(&two).wait(TTL).acquire());
        eventually("the writer waits", || two.stats().waiting == 1).await;
        reader.release().await.unwrap();
        let writer = waiting.await.unwrap().unwrap();
        let readers = [(); 2].map(|()| tokio::spawn(read(&three).wait(TTL).acquire()));
        eventually("the readers wait", || three.stats().waiting == 2).await;
        writer.release().await.unwrap();
        for reader in readers {
            reader.await.unwrap().unwrap().release().await.unwrap();
        }
    }
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
async fn waiting_writer_comes_before_new_readers() {
    for count in [1, 3] {
        let nodes = servers(count);
        let [one, two, three] = [(); 3].map(|()| client(&nodes));
        let reader = read(&one).acquire().await.unwrap();
        let waiting = tokio::spawn(write(&two).wait(TTL).acquire());
        turn_is_set(&nodes, "w").await;
        let text = refused(read(&three)).await.to_string();
        assert!(text.contains("a waiting writer comes first for "), "{text}");
        // The reader itself goes on.
        reader.extend(TTL * 2).await.unwrap();
        reader.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn waiting_readers_come_before_the_next_writer() {
    for count in [1, 3] {
        let nodes = servers(count);
        let [one, two] = [(); 2].map(|()| client(&nodes));
        let writer = write(&one).acquire().await.unwrap();
        let waiting = tokio::spawn(read(&two).wait(TTL).acquire());
        turn_is_set(&nodes, "r").await;
        waiting.abort();
        // As if the waiting reader asked again just before the release.
        nodes.iter().for_each(|node| drop(node.ask("SET {lock:cfg}:turn r5000 PX 60000")));
        writer.release().await.unwrap();
        let text = refused(write(&one)).await.to_string();
        assert!(text.contains("waiting readers come first for "), "{text}");
        // Its turn lasts for its window, since the other side was found to have left.
        let turns = || nodes.iter().map(|node| remaining_ttl(node, "{lock:cfg}:turn"));
        assert!(
            turns().all(|left| (1..=5000).contains(&left)),
            "{:?}",
            turns().collect::<Vec<_>>()
        );
        // A mutex takes no turns.
        one.lock("cfg").acquire().await.unwrap().release().await.unwrap();
        read(&two).acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn turn_ends_soon_if_nothing_waits_any_more() {
    for count in [1, 3] {
        let nodes = servers(count);
        let [one, two] = [(); 2].map(|()| client(&nodes));
        let reader = read(&one).acquire().await.unwrap();
        let waiting = tokio::spawn(write(&two).wait(TTL).acquire());
        turn_is_set(&nodes, "w").await;
        waiting.abort();
        drop(waiting.await);
        nodes.iter().for_each(|node| drop(node.ask("SET {lock:cfg}:turn w200 PX 60000")));
        reader.release().await.unwrap();
        // A waiting reader learns when the turn ends, and makes it end after its window.
        read(&one).wait(TTL).acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn writer_ends_its_turn_when_it_acquires() {
    for count in [1, 3] {
        let nodes = servers(count);
        let [one, two] = [(); 2].map(|()| client(&nodes));
        let reader = read(&one).acquire().await.unwrap();
        let waiting = tokio::spawn(write(&two).wait(TTL).acquire());
        turn_is_set(&nodes, "w").await;
        reader.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        // A minority may have refused the writer, because the release came later there.
        let ended = |node: &&Server| node.ask("EXISTS {lock:cfg}:turn") == ":0";
        assert!(nodes.iter().filter(ended).count() > count / 2);
        assert!(read(&one).try_acquire().await.unwrap().is_some());
    }
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
async fn turn_of_readers_ends_when_they_leave() {
    for count in [1, 3] {
        let nodes = servers(count);
        let [one, two] = [(); 2].map(|()| client(&nodes));
        for (turn, reader_is_next) in [("s60000 PX 60000", true), ("b60000 PX 60000", false)] {
            let set = format!("SET {{lock:cfg}}:turn {turn}");
            nodes.iter().for_each(|node| drop(node.ask(&set)));
            let reader = read(&one).try_acquire().await.unwrap();
            assert_eq!(reader.is_some(), reader_is_next);
            if let Some(reader) = reader {
                reader.release().await.unwrap();
            }
            write(&two).wait(TTL).acquire().await.unwrap().release().await.unwrap();
            // A minority may have refused the writer, because the release came later there.
            let ended = |node: &&Server| node.ask("EXISTS {lock:cfg}:turn") == ":0";
            assert!(nodes.iter().filter(ended).count() > count / 2);
            nodes.iter().for_each(|node| drop(node.ask("DEL {lock:cfg}:turn")));
        }
    }
}

#[tokio::test]
async fn acquire_without_a_wait_sets_no_turn() {
    let nodes = servers(1);
    let [one, two] = [(); 2].map(|()| client(&nodes));
    for (held, lock) in [(read(&one), write(&two)), (write(&one), read(&two))] {
        let lease = held.acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        refused(lock).await;
        assert_eq!(nodes[0].ask("EXISTS {lock:cfg}:turn"), ":0");
        lease.release().await.unwrap();
        assert_eq!(nodes[0].ask("DBSIZE"), ":0", "a release leaves nothing");
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
async fn lock_key_covers_the_longest_reader() {
    let nodes = servers(1);
    let redlock = client(&nodes);
    let left = || remaining_ttl(&nodes[0], "lock:cfg");
    let first = read(&redlock).acquire().await.unwrap();
    let second = read(&redlock).ttl(TTL * 3).acquire().await.unwrap();
    assert!(left() > 58_000, "{}", left());
    second.release().await.unwrap();
    assert!((15_000..=21_000).contains(&left()), "{}", left());
    first.extend(TTL * 2).await.unwrap();
    assert!((38_000..=41_000).contains(&left()), "{}", left());
    first.release().await.unwrap();
    assert_eq!(left(), -2);
}

#[tokio::test]
async fn attach_continues_both_sides() {
    let (_nodes, setups) = setups();
    for [one, two, three] in setups {
        for (lock, other) in
            [(read as fn(&Redlock) -> Lock, write as fn(&Redlock) -> Lock), (write, read)]
        {
            let first = lock(&one).acquire().await.unwrap();
            let second = lock(&two).attach(first.token()).await.unwrap();
            assert!(first.detach());
            second.extend(TTL).await.unwrap();
            refused(other(&three)).await;
            assert_eq!(
                other(&three).attach(second.token()).await.unwrap_err().kind(),
                ErrorKind::Lost
            );
            second.release().await.unwrap();
            other(&three).acquire().await.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn writer_keeps_the_rules_of_a_mutex() {
    let (_nodes, setups) = setups();
    for [one, two, _] in setups {
        let mut last = 0;
        for lock in [write(&one), two.lock("cfg"), write(&two), write(&one)] {
            let lease = lock.fencing(true).acquire().await.unwrap();
            let token = lease.fencing_token().unwrap();
            assert!(token > last);
            last = token;
            lease.extend(TTL).await.unwrap();
            lease.release().await.unwrap();
        }
        let lease = write(&one).min_hold(TTL / 2).acquire().await.unwrap();
        lease.release().await.unwrap();
        let text = refused(read(&two)).await.to_string();
        assert!(text.contains("min_hold"), "{text}");
        assert_eq!(read(&two).inspect().await.unwrap().mode, None);
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

#[tokio::test]
async fn lock_describes_its_key() {
    let redlock = Redlock::builder([&*memory_url()]).build().unwrap();
    let lock = redlock.rwlock("cfg");
    for side in [lock.read(), lock.write()] {
        assert_eq!(
            (side.key(), side.keys()),
            ("lock:cfg".to_owned(), &["lock:cfg".to_owned()][..])
        );
    }
    assert_eq!(format!("{lock:?}"), "RwLock { key: \"lock:cfg\", .. }");
    let lease = lock.read().acquire().await.unwrap();
    assert_eq!(lease.keys(), ["lock:cfg"]);
}
