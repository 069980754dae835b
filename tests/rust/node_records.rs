//! Log records about the nodes. A problem that repeats is logged once, or rarely.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use redlock::Redlock;
use redlock::testing::{Clock, TestRedlock};
use tokio::sync::Barrier;

use super::support::{
    Cluster, Gateway, RIGHTS, Server, Verdict, block_on, client, eventually_blocking,
};
use super::{FastClock, LINES, Turn, lines_with, lock};

#[test]
fn logs_a_refused_delete_once() {
    let _turn = Turn::take();
    let servers: Vec<_> = (0..3).map(|_| Server::start()).collect();
    let urls = servers.iter().map(|server| {
        let set = format!("ACL SETUSER app reset on >s3cret-word {RIGHTS}");
        assert_eq!(server.ask(&set), "+OK");
        format!("redis://app:s3cret-word@127.0.0.1:{}", server.port)
    });
    let redlock = Redlock::builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    block_on(async {
        for name in ["one", "two"] {
            let lease = redlock.lock(name).acquire().await.unwrap();
            // Two nodes are a quorum, so one vote may arrive after the grant.
            let voted = |server: &Server| server.ask(&format!("EXISTS lock:{name}")) == ":1";
            eventually_blocking("the vote of each node", || servers.iter().all(voted));
            assert_eq!(servers[0].ask("ACL SETUSER app -evalsha"), "+OK");
            // A quorum has confirmed it.
            lease.release().await.unwrap();
            lines_with("a delete was refused", 1);
            assert_eq!(servers[0].ask(&format!("EXISTS lock:{name}")), ":1");
        }
    });
    let lines = lines_with("a delete was refused", 1);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert!(line.starts_with("WARN") && line.contains("NOPERM"), "{line}");
    assert!(line.contains(&servers[0].url()) && !line.contains("s3cret-word"), "{line}");
}

#[test]
fn logs_a_permanent_error_once_and_returns_it_each_time() {
    let _turn = Turn::take();
    let server = Server::start();
    let url = format!("redis://app:s3cret-word@127.0.0.1:{}", server.port);
    let redlock = Redlock::builder([&url]).build().unwrap();
    for _ in 0..5 {
        let error = block_on(redlock.lock("job").acquire()).unwrap_err();
        assert!(error.to_string().contains("WRONGPASS"), "{error}");
    }
    let refused = || server.info("errorstats", "errorstat_WRONGPASS").unwrap_or_default();
    let before = refused();
    eventually_blocking("another attempt", || refused() != before);
    // Behind all records so far.
    let evicting = Server::with(&["--maxmemory-policy", "allkeys-lru"]);
    let other = Redlock::builder([evicting.url()]).build().unwrap();
    block_on(other.lock("job").inspect()).unwrap();
    lines_with("may evict lock keys", 1);
    let node = format!(":{}", server.port);
    let all = lock(&LINES).clone();
    let lines: Vec<_> = all.iter().filter(|line| line.contains(&node)).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("WARN") && lines[0].contains("WRONGPASS"), "{lines:?}");
    assert!(!lines[0].contains("s3cret"), "{lines:?}");
}

#[test]
fn logs_unsupported_proxy_commands_in_one_record() {
    let _turn = Turn::take();
    let server = Server::start();
    let gateway = Gateway::twemproxy(server.port);
    let redlock = Redlock::builder([gateway.url()]).build().unwrap();
    block_on(async {
        redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    });
    let lines = lines_with("a proxy in front of it, does not support", 1);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for word in ["WARN", "HELLO", "CLIENT SETNAME", "CLIENT TRACKING", "SCRIPT LOAD", "EVAL"] {
        assert!(lines[0].contains(word), "{word}: {lines:?}");
    }
}

#[test]
fn log_of_resp2_blames_the_url() {
    let _turn = Turn::take();
    let server = Server::start();
    let redlock = Redlock::builder([format!("{}?protocol=2", server.url())]).build().unwrap();
    block_on(async {
        redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    });
    let lines =
        lines_with("the URL has protocol=2, without notifications: waiting callers poll", 1);
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn logs_lost_and_recovered_server_features() {
    let _turn = Turn::take();
    let server = Server::start();
    let left = Arc::new(AtomicU64::new(2));
    let closes = Arc::clone(&left);
    let one_less = |left: u64| left.checked_sub(1);
    let gateway = Gateway::to(server.port, move |words, _| {
        let is_left = || closes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if words[0] == "HELLO" && is_left() { Verdict::Close } else { Verdict::Pass }
    });
    // Records that follow each other closely would be omitted.
    let builder = Redlock::builder([gateway.url()]).clock(Arc::new(FastClock));
    let redlock = builder.node_timeout(Duration::from_secs(1000)).build().unwrap();
    // An idle client would not replace its connection before the next command.
    let year = Duration::from_secs(365 * 24 * 3600);
    let _held = block_on(redlock.lock("held").ttl(year).acquire()).unwrap();
    for count in 1..=3 {
        // Then no other connection is opened before the kill.
        eventually_blocking("notifications", || count == 1 || server.redirects());
        // After a connection that worked, the next attempt finds out what the server supports: it has voted, and lasted
        // for a second of this clock.
        let opened = FastClock.now();
        let vote = redlock.lock("vote").ttl(Duration::from_secs(3000));
        block_on(async { vote.acquire().await.unwrap().release().await.unwrap() });
        eventually_blocking("a second", || FastClock.now().since(opened) > Duration::from_secs(2));
        left.store(2, Ordering::SeqCst);
        server.ask("CLIENT KILL TYPE normal");
        block_on(redlock.lock("job").ttl(Duration::from_secs(3000)).inspect()).ok();
        for words in [
            "a proxy in front of it, does not support HELLO",
            "the server supports all commands now",
        ] {
            assert_eq!(lines_with(words, count).len(), count);
        }
    }
}

#[test]
fn logs_a_missing_second_connection_once() {
    const FULL: Verdict = Verdict::Dismiss("-ERR max number of clients reached\r\n");
    const ELSEWHERE: Verdict = Verdict::Reply("$14\r\nrun_id:another\r\n");
    let _turn = Turn::take();
    let server = Server::start();
    // The command with this word gets this reply, except on the first connection.
    let rows = [
        ("HELLO", 1, FULL, "max number of clients reached"),
        ("server", 1, ELSEWHERE, "leads to another server"),
        ("REDIRECT", 0, Verdict::Reply("-ERR no such client\r\n"), "no such client"),
        ("REDIRECT", 0, Verdict::Close, "the first connection ended at two attempts"),
    ];
    for (count, (word, first, verdict, why)) in rows.into_iter().enumerate() {
        let seen = AtomicU64::new(0);
        let gateway = Gateway::to(server.port, move |words, _| {
            let named = words.iter().any(|each| each == word);
            let second = named && seen.fetch_add(1, Ordering::SeqCst) >= first;
            if second { verdict } else { Verdict::Pass }
        });
        let redlock = Redlock::builder([gateway.url()]).build().unwrap();
        let works = async || redlock.lock("job").acquire().await.unwrap().release().await;
        let lines = || lines_with("cannot open a second connection for notifications", 0);
        eventually_blocking("a record", || {
            let _ = block_on(works());
            lines().len() > count
        });
        (0..20).for_each(|_| block_on(works()).unwrap());
        let lines = lines();
        assert!(lines[count].contains(why) && lines[count].contains("WARN"), "{why}: {lines:?}");
        assert_eq!(lines.len(), count + 1, "{lines:?}");
        let reconnects = if verdict == Verdict::Close { 2 } else { 0 };
        assert_eq!(redlock.stats().reconnects, reconnects, "{why}");
    }
}

#[test]
fn logs_a_repeated_finding_of_connections_once() {
    let _turn = Turn::take();
    let server = Server::with(&["--maxmemory-policy", "allkeys-lru"]);
    let builder = Redlock::builder([server.url()]).restart_guard(Duration::from_secs(36_000));
    let redlock = builder.build().unwrap();
    block_on(redlock.lock("job").inspect()).unwrap();
    for count in 1..=10 {
        server.ask("CLIENT KILL TYPE normal");
        eventually_blocking("a new connection", || {
            block_on(redlock.lock("job").inspect()).is_ok() && redlock.stats().reconnects >= count
        });
    }
    // Behind all records so far.
    let flush = redlock.lock("flush").ttl(Duration::from_secs(7200)).wait(Duration::ZERO);
    block_on(flush.acquire()).unwrap_err();
    lines_with("the ttl is above one hour", 1);
    for words in ["may evict lock keys", "grants new leases in"] {
        let node = format!(":{}", server.port);
        let about = lines_with(words, 1).into_iter().filter(|line| line.contains(&node)).count();
        assert_eq!(about, 1, "{words}");
    }
}

#[test]
fn logs_unconfirmed_releases_at_growing_intervals() {
    const COUNT: usize = 20;
    let _turn = Turn::take();
    let mut server = Server::start();
    let redlock = client([&server]);
    let barrier = Barrier::new(COUNT + 1);
    let one = async |at: usize| {
        let lock = redlock.lock(format!("job-{at}")).ttl(Duration::from_secs(60));
        let body = async |_| {
            barrier.wait().await;
            barrier.wait().await;
        };
        lock.using(body).await.unwrap();
    };
    let port = server.port;
    block_on(async {
        let kill = async {
            barrier.wait().await;
            server.kill();
            barrier.wait().await;
        };
        join(join_all((0..COUNT).map(one)), kill).await
    });
    let lines = lines_with("not released: lock:job-", 1);
    let lines: Vec<_> = lines.iter().filter(|line| line.contains(&format!(":{port}"))).collect();
    // Even if each release takes a second, only some of them are logged.
    assert!((1..=10).contains(&lines.len()), "{lines:?}");
}

/// The keys of a lock with `min_hold` and the memory of a run stay on a node that gets the release.
#[test]
fn unconfirmed_release_names_the_time_that_the_key_stays() {
    let _turn = Turn::take();
    let ends = |name: &str, why: &str| {
        let words = format!("lock:{name}: release not confirmed, so {why}. ");
        assert_eq!(lines_with(&words, 1).len(), 1, "{words}");
    };
    // Of one client, some records would be omitted.
    let fake = || TestRedlock::new().unwrap();
    let (plain, tick, success, failure) = (fake(), fake(), fake(), fake());
    let hour = Duration::from_secs(3600);
    block_on(async {
        plain.lock("plain").using(async |_| plain.fail()).await.unwrap();
        tick.lock("tick").min_hold(hour).using(async |_| tick.fail()).await.unwrap();
        let succeeds = async |_| {
            success.fail();
            Ok::<_, redlock::Error>(())
        };
        assert!(success.once("success", hour).run(succeeds).await.unwrap().is_some());
        let fails = async |_| {
            failure.fail();
            Err::<(), _>(failure.lock("").acquire().await.unwrap_err())
        };
        failure.once("failure", hour).run(fails).await.unwrap_err();
    });
    ends("plain", "the key expires when its TTL ends");
    ends("tick", "each node keeps the key until its TTL or min_hold ends");
    ends("success", "each node keeps the key until its TTL or remember ends");
    ends("failure", "the key expires when its TTL ends");
}

/// A server that accepts connections and extends leases is not available before it votes again.
#[test]
fn outage_of_refused_votes_is_one_record_with_its_end() {
    let _turn = Turn::take();
    for reply in [
        "-READONLY You can't write against a read only replica.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-MISCONF Redis is configured to save RDB snapshots\r\n",
        "-BUSY Redis is busy running a script.\r\n",
    ] {
        let (server, refuses) = (Server::start(), Arc::new(AtomicBool::new(true)));
        let is_refused = Arc::clone(&refuses);
        let gateway = Gateway::to(server.port, move |words, _| {
            let is_vote = words.iter().any(|word| word == "lock:job");
            let is_refused = is_vote && is_refused.load(Ordering::SeqCst);
            if is_refused { Verdict::Reply(reply) } else { Verdict::Pass }
        });
        let url = gateway.url();
        let records = |words: &str| {
            let lines = lock(&LINES);
            let ours = |line: &&String| line.contains(words) && line.contains(&url);
            lines.iter().filter(ours).cloned().collect::<Vec<_>>()
        };
        let redlock = Redlock::builder([&url]).build().unwrap();
        let (job, minute) = (redlock.lock("job"), Duration::from_secs(60));
        block_on(async {
            let held = redlock.lock("held").ttl(minute).acquire().await.unwrap();
            let mut after = 0;
            while after < 10 {
                let fails = job.clone().wait(Duration::from_millis(50)).acquire();
                fails.await.unwrap_err();
                // It succeeds unless the refused vote has ended the connection.
                let _ = held.extend(minute).await;
                after += usize::from(!records("unavailable for").is_empty());
            }
            refuses.store(false, Ordering::SeqCst);
            job.clone().wait(minute).acquire().await.unwrap().release().await.unwrap();
        });
        eventually_blocking("its end", || !records("available again after").is_empty());
        let (begins, ends) = (records("unavailable for"), records("available again after"));
        assert_eq!((begins.len(), ends.len()), (1, 1), "{begins:?} {ends:?}");
        let code = reply[1..].split(' ').next().unwrap();
        assert!(begins[0].starts_with("WARN") && begins[0].contains(code), "{begins:?}");
    }
}

#[test]
fn cluster_logs_one_outage_and_names_the_server() {
    let _turn = Turn::take();
    let mut cluster = Cluster::start(2, false);
    let (url, owner) = (cluster.url(), cluster.owner_of("lock:job"));
    let builder = Redlock::builder([&url]).clock(Arc::new(FastClock));
    let redlock = builder.node_timeout(Duration::from_secs(1000)).build().unwrap();
    let lock = redlock.lock("job").ttl(Duration::from_secs(86_400)).wait(Duration::ZERO);
    block_on(async { lock.acquire().await.unwrap().release().await.unwrap() });
    cluster.masters[owner].kill();
    let fails = || block_on(lock.acquire()).unwrap_err().to_string();
    // The text of an attempt to connect, after that of the connection that broke.
    let server = format!(" 127.0.0.1:{}: cannot connect", cluster.masters[owner].port);
    eventually_blocking("the server's address", || fails().contains(&server));
    // From 1 s, 10 s and 60 s on. The attempts to connect are not logged separately.
    let records = || {
        let lines = super::lock(&LINES);
        let ours = |line: &&String| line.contains("unavailable for") && line.contains(&url);
        lines.iter().filter(ours).cloned().collect::<Vec<_>>()
    };
    let lasts = |line: &String| {
        let milliseconds = line.split("outage_ms=").nth(1).unwrap().split(' ').next().unwrap();
        milliseconds.parse::<f64>().unwrap() > 60_000.0
    };
    eventually_blocking("a long outage", || {
        fails();
        records().iter().any(lasts)
    });
    assert_eq!(records().len(), 3, "{:?}", records());
}
