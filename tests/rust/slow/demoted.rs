//! Servers that are reached and take no vote. The client asks them again after growing pauses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redlock::{Lease, Redlock};
use tokio::task::JoinSet;

use crate::support::{Gateway, Server, Verdict, builder, client, free_port, millis};

/// How long a server takes no vote.
const OUTAGE: Duration = Duration::from_secs(5);
/// The maximum number of connections that a client opens meanwhile.
const MAX_CONNECTIONS: usize = 20;

/// The numbers of connections and commands that the server has received.
fn received(server: &Server) -> (usize, usize) {
    let stats = server.text("INFO stats");
    let field = |name: &str| -> usize {
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().trim().parse().unwrap()
    };
    (field("total_connections_received"), field("total_commands_processed"))
}

/// What the server has received since, without this request.
fn received_since(server: &Server, (connections, commands): (usize, usize)) -> (usize, usize) {
    let (all_connections, all_commands) = received(server);
    // `INFO` and `QUIT` over one connection.
    (all_connections - connections - 1, all_commands - commands - 2)
}

/// As a managed service, a Kubernetes service or a virtual IP does for a while: the same address, and a replica.
fn demote(server: &Server) {
    assert_eq!(server.ask(&format!("REPLICAOF 127.0.0.1 {}", free_port())), "+OK");
}

fn promote(server: &Server) {
    assert_eq!(server.ask("REPLICAOF NO ONE"), "+OK");
}

/// Callers that wait, each for a separate lock.
fn waiters(redlock: &Redlock, count: usize) -> JoinSet<redlock::Result<Lease>> {
    let lock = |at| redlock.lock(format!("job-{at}")).wait(Duration::from_secs(60));
    let mut waiters = JoinSet::new();
    (0..count).for_each(|at| drop(waiters.spawn(lock(at).acquire())));
    waiters
}

async fn all_granted(waiters: JoinSet<redlock::Result<Lease>>) {
    for lease in waiters.join_all().await {
        lease.unwrap().release().await.unwrap();
    }
}

async fn demoted_server_is_not_stormed(url: impl Fn(&Server) -> String, per_connection: usize) {
    for count in [1, 8, 100] {
        let server = Server::start();
        let redlock = builder([url(&server)]).build().unwrap();
        redlock.lock("first").acquire().await.unwrap().release().await.unwrap();
        let before = received(&server);
        demote(&server);
        let waiting = waiters(&redlock, count);
        tokio::time::sleep(OUTAGE).await;
        let (connections, commands) = received_since(&server, before);
        eprintln!("{count} waiters: {connections} connections, {commands} commands");
        promote(&server);
        let promoted = Instant::now();
        all_granted(waiting).await;
        let took = promoted.elapsed();
        // Every waiter sends a vote and its delete over the connection that ends.
        assert!(connections <= MAX_CONNECTIONS, "{count} waiters: {connections} connections");
        let most = MAX_CONNECTIONS * per_connection + 6 * count;
        assert!(commands <= most, "{count} waiters: {commands} commands");
        assert!(took < millis(1000), "{count} waiters: {took:?}");
    }
}

// Slow: what a client sends in five seconds is counted.
#[tokio::test]
async fn demoted_server_gets_few_connections() {
    demoted_server_is_not_stormed(Server::url, 1).await;
}

// Slow: what a client sends in five seconds is counted.
#[tokio::test]
async fn demoted_server_without_hello_gets_few_connections() {
    demoted_server_is_not_stormed(|server| format!("{}?protocol=2", server.url()), 24).await;
}

/// A proxy without its server, or a server that shuts down: it accepts connections, and ends each at a command that is
/// `last`, and afterwards at one that is `unsupported`. There was a connection before.
async fn proxy_that_ends_connections_is_not_stormed(
    last: fn(&[String]) -> bool,
    unsupported: fn(&[String]) -> bool,
) {
    let none: fn(&[String]) -> bool = |_| false;
    for count in [1, 8, 100] {
        let server = Server::start();
        let closes_at = Arc::new(Mutex::new(none));
        let ends = Arc::clone(&closes_at);
        let gateway = Gateway::to(server.port, move |words, _| {
            let closes = *ends.lock().unwrap();
            if closes(words) { Verdict::Close } else { Verdict::Pass }
        });
        let redlock = builder([gateway.url()]).build().unwrap();
        redlock.lock("job-first").acquire().await.unwrap().release().await.unwrap();
        let (before, opened) = (received(&server), gateway.connections.load(Ordering::SeqCst));
        *closes_at.lock().unwrap() = last;
        let waiting = waiters(&redlock, count);
        tokio::time::sleep(OUTAGE).await;
        let connections = gateway.connections.load(Ordering::SeqCst) - opened;
        let (_, commands) = received_since(&server, before);
        eprintln!("{count} waiters: {connections} connections, {commands} commands");
        *closes_at.lock().unwrap() = unsupported;
        let returned = Instant::now();
        all_granted(waiting).await;
        let took = returned.elapsed();
        assert!(connections <= MAX_CONNECTIONS, "{count} waiters: {connections} connections");
        // The proxy passes only the handshakes on.
        assert!(commands <= MAX_CONNECTIONS * 30, "{count} waiters: {commands} commands");
        assert!(took < millis(1000), "{count} waiters: {took:?}");
    }
}

// Slow: what a client sends in five seconds is counted.
#[tokio::test]
async fn proxy_that_ends_the_connection_at_the_lock_command_gets_few_connections() {
    let is_vote = |words: &[String]| words.iter().any(|word| word.starts_with("lock:job"));
    proxy_that_ends_connections_is_not_stormed(is_vote, |_| false).await;
}

/// The handshake tries the commands of a lock, so it does not succeed.
// Slow: what a client sends in five seconds is counted.
#[tokio::test]
async fn proxy_that_ends_the_connection_at_any_write_gets_few_connections() {
    let is_write = |words: &[String]| ["SET", "EVAL", "EVALSHA"].contains(&&*words[0]);
    proxy_that_ends_connections_is_not_stormed(is_write, |_| false).await;
}

// Slow: what a client sends in five seconds is counted.
#[tokio::test]
async fn proxy_that_ends_each_connection_at_once_gets_few_connections() {
    proxy_that_ends_connections_is_not_stormed(|_| true, |_| false).await;
}

/// The proxy that returns may be an old one. It closes connections at commands that it does not support.
// Slow: what a client sends in five seconds is counted.
#[tokio::test]
async fn old_proxy_is_found_soon_after_an_outage() {
    let is_hello = |words: &[String]| words[0] == "HELLO";
    proxy_that_ends_connections_is_not_stormed(|_| true, is_hello).await;
    let is_extra = |words: &[String]| ["HELLO", "CLIENT", "INFO", "SCRIPT"].contains(&&*words[0]);
    proxy_that_ends_connections_is_not_stormed(|_| true, is_extra).await;
}

// Slow: what a client sends in five seconds is counted.
#[tokio::test]
async fn server_that_refuses_votes_gets_few_commands() {
    for reply in [
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-MISCONF Redis is configured to save RDB snapshots\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
    ] {
        let (server, count) = (Server::start(), 8);
        let (refuses, votes) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicUsize>::default());
        let (fails, seen) = (Arc::clone(&refuses), Arc::clone(&votes));
        let gateway = Gateway::to(server.port, move |words, _| {
            let is_vote = words.iter().any(|word| word.starts_with("lock:job"));
            seen.fetch_add(usize::from(is_vote), Ordering::SeqCst);
            if is_vote && fails.load(Ordering::SeqCst) {
                Verdict::Reply(reply)
            } else {
                Verdict::Pass
            }
        });
        let redlock = builder([gateway.url()]).build().unwrap();
        let waiting = waiters(&redlock, count);
        tokio::time::sleep(OUTAGE).await;
        let (votes, connections) =
            (votes.load(Ordering::SeqCst), gateway.connections.load(Ordering::SeqCst));
        eprintln!("{reply:?}: {votes} commands, {connections} connections");
        refuses.store(false, Ordering::SeqCst);
        let returned = Instant::now();
        all_granted(waiting).await;
        let took = returned.elapsed();
        // A vote takes up to three commands and a delete. The pauses grow from 5 ms to 1 s, and refused deletes are
        // sent again after 1, 3 and 7 s.
        assert!(votes <= 160 * count, "{reply:?}: {votes} commands");
        assert!(connections <= 2, "{reply:?}: {connections} connections");
        assert!(took < millis(1500), "{reply:?}: {took:?}");
    }
}

/// A lease is held, and the server is demoted: its holder is notified before the key can expire, and the renewals open
/// no connections.
// Slow: the lease ends while the server is a replica.
#[tokio::test]
async fn lease_on_a_demoted_server_is_lost_in_time() {
    let server = Server::start();
    let redlock = client([&server]);
    let ttl = millis(2000);
    let mut leases = Vec::new();
    for at in 0..50 {
        leases.push(redlock.lock(format!("job-{at}")).ttl(ttl).acquire().await.unwrap());
    }
    let before = received(&server);
    demote(&server);
    let started = Instant::now();
    for lease in &leases {
        lease.lost().await;
        // A renewal just before may have moved the deadline.
        assert!(started.elapsed() < ttl, "{:?}", started.elapsed());
    }
    tokio::time::sleep(OUTAGE.saturating_sub(started.elapsed())).await;
    let (connections, commands) = received_since(&server, before);
    eprintln!("leases: {connections} connections, {commands} commands");
    assert!(connections <= MAX_CONNECTIONS, "{connections} connections");
    assert!(commands <= MAX_CONNECTIONS + 4 * leases.len(), "{commands} commands");
}

/// A lease survives a server that is a replica for a short time.
// Slow: the lease is held for some renewals.
#[tokio::test]
async fn lease_survives_a_short_demotion() {
    let server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").ttl(millis(6000)).acquire().await.unwrap();
    for _ in 0..2 {
        demote(&server);
        tokio::time::sleep(millis(2500)).await;
        promote(&server);
        let renewed = redlock.stats().renewed;
        let promoted = Instant::now();
        while redlock.stats().renewed == renewed {
            assert!(promoted.elapsed() < millis(1500), "not renewed");
            tokio::time::sleep(millis(10)).await;
        }
    }
    lease.release().await.unwrap();
}
