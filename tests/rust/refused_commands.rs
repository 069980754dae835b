//! The user of docs/operate/security.md runs every feature without a refused command. An optional command that the
//! user may not run is sent at most once over each connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use redlock::{Builder, Redlock};

use crate::idle::JumpingClock;
use crate::support::batch::{LEASES, acquire_many, calls_of, release_many};
use crate::support::replicas::pair;
use crate::support::{Cluster, RIGHTS, Sentinels, Server, eventually, millis};

/// What newer servers know too. Redis 6.2 and 7.0 refuse a line with it.
const RIGHTS_SINCE_7_2: &str = include_str!("../vectors/rights_since_7_2.txt").trim_ascii_end();

const PAGE: &str = include_str!("../../docs/operate/security.md");

/// Creates the documented user, and returns the start of its URL.
fn login(server: &Server, rights: &str) -> String {
    assert_eq!(server.ask(&format!("ACL SETUSER app reset on >s3cret-word {rights}")), "+OK");
    // Redis 7.0 accepts neither, and Redis 6.2 only the second.
    let more = match &*version(server) {
        version if version.starts_with("6.") => "+client|setinfo",
        version if version.starts_with("7.0.") => "",
        _ => RIGHTS_SINCE_7_2,
    };
    assert_eq!(server.ask(&format!("ACL SETUSER app {more}")), "+OK");
    format!("redis://app:s3cret-word@127.0.0.1:{}", server.port)
}

fn version(server: &Server) -> String {
    server.info("server", "redis_version").unwrap()
}

fn is_before_7_2(server: &Server) -> bool {
    let version = version(server);
    version.starts_with("6.") || version.starts_with("7.0.")
}

/// Returns how often each command or key of the user was refused.
fn refused(server: &Server) -> BTreeMap<String, usize> {
    let log = server.text("ACL LOG 1000");
    let mut lines = log.lines();
    let (mut counts, mut count) = (BTreeMap::new(), 0);
    while let Some(line) = lines.next() {
        match line {
            "count" => count = lines.next().unwrap()[1..].parse().unwrap(),
            "object" => {
                let object = lines.nth(1).unwrap().to_owned();
                *counts.entry(object).or_insert(0) += count;
            }
            _ => {}
        }
    }
    counts
}

fn assert_none_refused(servers: &[&Server]) {
    for server in servers {
        assert_eq!(refused(server), BTreeMap::new());
        assert_eq!(server.info("errorstats", "errorstat_NOPERM"), None);
    }
}

/// Runs every operation of one client.
async fn run_operations(redlock: &Redlock) {
    let lock = redlock.lock("job");
    for _ in 0..100 {
        let lease = lock.acquire().await.unwrap();
        lease.extend(millis(20_000)).await.unwrap();
        lease.release().await.unwrap();
    }
    let lease = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.inspect().await.unwrap().held);
    lock.attach(lease.token()).await.unwrap().detach();
    let waiter = tokio::spawn(lock.acquire());
    eventually("a waiter", || redlock.stats().waiting == 1).await;
    lease.release().await.unwrap();
    let lease = waiter.await.unwrap().unwrap();
    assert!(redlock.force_release("job").await.unwrap());
    lease.lost().await;
    let held =
        redlock.lock("held").ttl(millis(1000)).min_hold(millis(500)).acquire().await.unwrap();
    let renewed = redlock.stats().renewed;
    eventually("renewals", || redlock.stats().renewed > renewed + 1).await;
    held.release().await.unwrap();
}

/// Runs the operations that need scripts.
async fn run_scripted_operations(redlock: &Redlock) {
    for _ in 0..5 {
        let both = redlock.lock(["{a}:1", "{a}:2", "{a}:3"]).acquire().await.unwrap();
        both.extend(millis(20_000)).await.unwrap();
        both.release().await.unwrap();
    }
    let names = redlock.lock(["{a}:1", "{a}:2"]).fencing(true).min_hold(millis(1));
    names.acquire().await.unwrap().release().await.unwrap();
    let fenced = redlock.lock("fenced").fencing(true).acquire().await.unwrap();
    fenced.extend(millis(20_000)).await.unwrap();
    fenced.release().await.unwrap();
    run_primitives(redlock).await;
}

/// Uses a semaphore and both sides of a read/write lock, which wait for each other.
async fn run_primitives(redlock: &Redlock) {
    let pool = redlock.semaphore("pool", 3).permits(2);
    let permits = pool.acquire().await.unwrap();
    assert!(pool.try_acquire().await.unwrap().is_none());
    assert_eq!(pool.inspect().await.unwrap().taken, 2);
    permits.extend(millis(20_000)).await.unwrap();
    permits.release().await.unwrap();
    let config = redlock.rwlock("config");
    let [first, second] = [config.read(), config.read()].map(|read| read.acquire());
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert!(config.write().try_acquire().await.unwrap().is_none());
    let writer = tokio::spawn(config.write().fencing(true).acquire());
    eventually("a waiting writer", || redlock.stats().waiting == 1).await;
    first.extend(millis(20_000)).await.unwrap();
    first.release().await.unwrap();
    second.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    let reader = tokio::spawn(config.read().acquire());
    eventually("a waiting reader", || redlock.stats().waiting == 1).await;
    writer.release().await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    assert!(redlock.force_release("config").await.unwrap());
    reader.lost().await;
}

/// Acquires, renews and releases many leases at once.
async fn run_batches(redlock: &Redlock) {
    for _ in 0..3 {
        let leases = acquire_many(redlock, LEASES).await;
        let before = redlock.stats().renewed;
        eventually("renewals", || redlock.stats().renewed >= before + 2 * LEASES as u64).await;
        release_many(leases).await.into_iter().for_each(Result::unwrap);
    }
}

/// Runs the operations over a client's first connection and its successors, also after idle times.
async fn run_over_connections(server: &Server, builder: Builder, pushes: bool) {
    let clock = JumpingClock::default();
    let redlock = builder.clock(Arc::new(clock.clone())).build().unwrap();
    for reconnects in 1..=2 {
        run_operations(&redlock).await;
        let probes = || {
            let sent = ["ping", "hello"].map(|name| calls_of(server, name));
            sent.into_iter().sum::<usize>()
        };
        for _ in 0..2 {
            let before = probes();
            // Not while another reply is outstanding.
            while probes() == before {
                clock.jump(60);
                redlock.lock("idle").inspect().await.unwrap();
            }
        }
        if pushes {
            // Its own clock cannot be advanced.
            let before = probes();
            let lock = redlock.lock("quiet");
            while probes() == before {
                lock.inspect().await.unwrap();
            }
        }
        assert_ne!(server.ask("CLIENT KILL USER app"), ":0");
        // An idle client connects again with its next command.
        while redlock.stats().reconnects < reconnects {
            redlock.lock("quiet").inspect().await.ok();
        }
    }
    redlock.lock("end").inspect().await.unwrap();
}

#[test]
fn page_has_the_tested_rights() {
    let line = |rights: &str| format!("\n    ACL SETUSER app on >password {rights}\n");
    assert!(PAGE.contains(&line(RIGHTS)));
    assert!(PAGE.contains(&format!("\n    ACL SETUSER app {RIGHTS_SINCE_7_2}\n")));
}

#[tokio::test]
async fn documented_user_runs_every_feature_of_one_server() {
    let server = Server::start();
    let url = login(&server, RIGHTS);
    let client = |parameters: &str| Redlock::builder([format!("{url}/1{parameters}")]);
    run_over_connections(&server, client(""), true).await;
    run_over_connections(&server, client("?protocol=2"), false).await;
    let redlock = client("").build().unwrap();
    run_scripted_operations(&redlock).await;
    server.ask("SCRIPT FLUSH");
    run_scripted_operations(&redlock).await;
    run_batches(&redlock).await;
    assert!(calls_of(&server, "client|kill") + calls_of(&server, "client") > 0);
    assert_none_refused(&[&server]);
}

#[tokio::test]
async fn documented_user_runs_a_quorum_with_replicas_and_disks() {
    let (primary, replica) = pair();
    let url = login(&primary, RIGHTS);
    let redlock = Redlock::builder([url.as_str()]).min_replicas(1).build().unwrap();
    run_scripted_operations(&redlock).await;
    let nodes = [(); 3].map(|()| Server::start());
    let urls = nodes.each_ref().map(|node| login(node, RIGHTS));
    let redlock = Redlock::builder(urls).restart_guard(millis(0)).build().unwrap();
    run_operations(&redlock).await;
    run_scripted_operations(&redlock).await;
    if !is_before_7_2(&primary) {
        let disk = Server::with(&["--appendonly", "yes"]);
        let redlock = Redlock::builder([login(&disk, RIGHTS)]).fsync(true).build().unwrap();
        run_scripted_operations(&redlock).await;
        assert_none_refused(&[&disk]);
    }
    assert_none_refused(&[&primary, &replica, &nodes[0], &nodes[1], &nodes[2]]);
}

#[tokio::test]
async fn documented_user_runs_a_cluster() {
    let cluster = Cluster::start(3, false);
    for master in &cluster.masters {
        login(master, RIGHTS);
    }
    let url = cluster.url().replace("://", "://app:s3cret-word@").replace("least:s3cret-word@", "");
    let redlock = Redlock::builder([url]).build().unwrap();
    run_operations(&redlock).await;
    run_scripted_operations(&redlock).await;
    let held = [
        redlock.lock("moved").acquire().await.unwrap(),
        redlock.semaphore("moved", 2).acquire().await.unwrap(),
        redlock.rwlock("{lock:moved}:rw").read().acquire().await.unwrap(),
    ];
    let owner = cluster.owner_of("lock:moved");
    cluster.move_slot("lock:moved", (owner + 1) % 3);
    for lease in held {
        lease.extend(millis(20_000)).await.unwrap();
        lease.release().await.unwrap();
    }
    assert_none_refused(&cluster.masters.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn documented_user_runs_behind_sentinels() {
    let sentinels = Sentinels::start(1, 0);
    let server = &sentinels.services[0].servers[0];
    login(server, RIGHTS);
    let url = sentinels.url(0).replace("://", "://app:s3cret-word@");
    let redlock = Redlock::builder([url.replace("least:s3cret-word@", "")]).build().unwrap();
    run_operations(&redlock).await;
    assert_none_refused(&[server]);
}

/// The optional rights, each with the number of its different commands in the handshake.
const OPTIONAL: [(&str, usize); 10] = [
    ("getrange", 1),
    ("mget", 1),
    ("exists", 1),
    ("ping", 1),
    ("client|caching", 1),
    ("client|kill", 1),
    ("client|id", 1),
    ("client|setname", 1),
    ("client|tracking", 1),
    ("info", 2),
];

#[tokio::test]
async fn refused_optional_command_is_sent_once_over_a_connection() {
    // Redis 6 does not tell scripts what their user may run.
    let old = version(&Server::start()).starts_with("6.");
    let in_scripts = |right: &str| matches!(right, "mget" | "exists");
    let removed = OPTIONAL.into_iter().filter(|(right, _)| !old || !in_scripts(right));
    join_all(removed.map(|(right, commands)| run_without(right, commands))).await;
}

async fn run_without(right: &str, commands: usize) {
    let server = Server::start();
    let rights = RIGHTS.replace(&format!(" +{right} "), " ");
    assert_ne!(rights, RIGHTS, "{right}");
    let url = login(&server, &rights);
    let pushes = right != "client|tracking";
    run_over_connections(&server, Redlock::builder([&url]), pushes).await;
    let redlock = Redlock::builder([&url]).build().unwrap();
    run_scripted_operations(&redlock).await;
    run_batches(&redlock).await;
    drop(redlock);
    let old_protocol = Redlock::builder([format!("{url}?protocol=2")]);
    run_over_connections(&server, old_protocol, false).await;
    let refused = refused(&server);
    let connections = calls_of(&server, "hello") + calls_of(&server, "auth");
    let count = refused.values().sum::<usize>();
    assert!(count > 0 && refused.len() == 1, "{right}: {refused:?}");
    let most = commands * connections;
    assert!(count <= most, "{right}: {refused:?} over {connections} connections");
}
