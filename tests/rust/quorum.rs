//! Redlock over several nodes: dead, frozen, restarted and cut-off minorities, and majorities.

use std::time::{Duration, Instant};

use redlock::{ErrorKind, NodeState};

use crate::support::{DELAY, Mode, Proxy, Server, builder, client, millis, servers};

#[tokio::test]
async fn a_dead_minority_changes_nothing() {
    let mut nodes = servers(5);
    let (one, two) = (client(&nodes), client(&nodes));
    nodes[0].kill();
    nodes[3].kill();
    let lease = one.lock("job").acquire().await.unwrap();
    assert!(two.lock("job").try_acquire().await.unwrap().is_none());
    lease.extend(millis(10_000)).await.unwrap();
    lease.release().await.unwrap();
    let lease = two.lock("job").wait(millis(2000)).acquire().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_dead_majority_is_unavailable_in_time_and_leaves_no_key() {
    let mut nodes = servers(5);
    let redlock = client(&nodes);
    for node in &mut nodes[2..] {
        node.kill();
    }
    let started = Instant::now();
    let error = redlock.lock("job").wait(millis(1000)).acquire().await.unwrap_err();
    assert!(started.elapsed() < millis(2000), "{:?}", started.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        error.nodes().iter().filter(|node| node.state == NodeState::Fault).count(),
        3,
        "{error}"
    );
    tokio::time::sleep(millis(100)).await;
    for node in &nodes[..2] {
        assert_eq!(node.ask("EXISTS lock:job"), ":0");
    }
}

#[tokio::test]
async fn a_lease_too_short_for_its_network_is_unavailable_and_lets_the_next_one_on() {
    let nodes = servers(3);
    let proxies: Vec<Proxy> = nodes.iter().map(|node| Proxy::to(node.port)).collect();
    let urls = proxies.iter().map(Proxy::url);
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    proxies.iter().for_each(|proxy| proxy.set(Mode::Delay));
    // Answers are in time for a vote, and too late for what `max_hold` leaves of the lease.
    let short = redlock.lock("job").ttl(DELAY * 8).node_timeout(DELAY * 7).max_hold(DELAY * 4 / 5);
    let error = short.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let first = tokio::spawn(short.wait(millis(4000)).acquire());
    tokio::task::yield_now().await;
    let second = redlock.lock("job").acquire().await.unwrap();
    assert!(!first.is_finished(), "wait alone decides how long it tries");
    second.release().await.unwrap();
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("a lease of 0.120 s was over by then"), "{error}");
}

#[tokio::test]
async fn a_frozen_minority_is_not_waited_for() {
    let nodes = servers(5);
    let redlock = client(&nodes);
    redlock.lock("warm").acquire().await.unwrap().release().await.unwrap();
    nodes[0].signal(libc::SIGSTOP);
    nodes[1].signal(libc::SIGSTOP);
    let lock = redlock.lock("job").ttl(millis(5000));
    for _ in 0..5 {
        let started = Instant::now();
        lock.acquire().await.unwrap().release().await.unwrap();
        assert!(started.elapsed() < millis(500), "{:?}", started.elapsed());
    }
    nodes[0].signal(libc::SIGCONT);
    nodes[1].signal(libc::SIGCONT);
    let end = Instant::now() + millis(8000);
    while nodes.iter().any(|node| node.ask("EXISTS lock:job") != ":0") {
        assert!(Instant::now() < end, "a stray key outlived one ttl");
        tokio::time::sleep(millis(50)).await;
    }
}

#[tokio::test]
async fn even_node_counts_work_and_a_tie_is_no_hang() {
    for count in [2, 4] {
        let nodes = servers(count);
        let (one, two) = (client(&nodes), client(&nodes));
        for node in &nodes[..count / 2] {
            node.ask("SET lock:job somebody PX 600");
        }
        assert!(one.lock("job").try_acquire().await.unwrap().is_none());
        let lease = one.lock("job").wait(millis(5000)).acquire().await.unwrap();
        assert!(two.lock("job").try_acquire().await.unwrap().is_none());
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn split_votes_are_rolled_back_and_somebody_wins() {
    let nodes = servers(3);
    let mut contenders = Vec::new();
    for _ in 0..8 {
        let redlock = client(&nodes);
        contenders.push(tokio::spawn(async move {
            let lease = redlock.lock("job").wait(millis(20_000)).acquire().await.unwrap();
            tokio::time::sleep(millis(2)).await;
            lease.release().await.unwrap();
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    tokio::time::sleep(millis(100)).await;
    assert!(nodes.iter().all(|node| node.ask("DBSIZE") == ":0"));
}

#[tokio::test]
async fn renewal_heals_a_node_that_lost_the_key() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    // Long enough for a machine so busy that a second is lost; it is healed long before anything is renewed for it.
    let lease = redlock.lock("job").ttl(millis(10_000)).acquire().await.unwrap();
    let end = Instant::now() + millis(30_000);
    let until = async |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(Instant::now() < end, "not {what}");
            tokio::time::sleep(millis(5)).await;
        }
    };
    // Two votes were enough for the lease and are for its release: the third may still be on its way, or have been
    // refused by what an earlier round of a busy machine had left. One less than two is no quorum any more.
    until("granted", &|| nodes.iter().all(|node| node.ask("GET lock:job") == lease.token())).await;
    nodes[2].ask("DEL lock:job");
    until("healed", &|| nodes[2].ask("GET lock:job") == lease.token()).await;
    lease.ensure_held().unwrap();
    lease.release().await.unwrap();
    until("released", &|| nodes.iter().all(|node| node.ask("EXISTS lock:job") == ":0")).await;
}

#[tokio::test]
async fn a_majority_that_lost_the_key_ends_the_lease_at_once() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    let lease = redlock.lock("job").ttl(millis(30_000)).acquire().await.unwrap();
    nodes[0].ask("DEL lock:job");
    nodes[1].ask("DEL lock:job");
    // Either both deletes came first, or the first was healed; a third makes sure.
    nodes[2].ask("DEL lock:job");
    nodes[0].ask("DEL lock:job");
    let error = tokio::time::timeout(millis(5000), lease.lost()).await;
    if error.is_err() {
        assert!(lease.held() && healed(&nodes, lease.token()) >= 2, "held without a quorum");
    }
}

fn healed(nodes: &[Server], token: &str) -> usize {
    nodes.iter().filter(|node| node.ask("GET lock:job") == token).count()
}

#[tokio::test]
async fn a_holder_cut_off_is_told_before_anybody_can_hold() {
    let nodes = servers(3);
    let proxies: Vec<_> = nodes.iter().map(|node| Proxy::to(node.port)).collect();
    let cut =
        builder(proxies.iter().map(Proxy::url)).restart_guard(Duration::ZERO).build().unwrap();
    let other = client(&nodes);
    for mode in [Mode::Blackhole, Mode::DropReplies] {
        let lease = cut.lock("job").ttl(millis(1000)).acquire().await.unwrap();
        proxies.iter().for_each(|proxy| proxy.set(mode));
        let lost = tokio::spawn({
            let lost = lease.lost();
            async move { (lost.await, Instant::now()) }
        });
        let next = other.lock("job").wait(millis(20_000)).acquire().await.unwrap();
        assert!(!lease.held(), "two holders");
        let (error, told) = lost.await.unwrap();
        assert_eq!(error.reason(), Some("expired"));
        assert!(told <= Instant::now());
        next.release().await.unwrap();
        drop(lease);
        proxies.iter().for_each(|proxy| {
            proxy.set(Mode::Pass);
            proxy.reset();
        });
        let lock = cut.lock("job").wait(millis(10_000));
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_young_server_takes_no_first_vote_and_says_when_it_will() {
    let nodes = servers(3);
    let urls = nodes.iter().map(Server::url);
    let guarded = builder(urls).restart_guard(Duration::from_secs(30)).build().unwrap();
    let lock = guarded.lock("job").wait(Duration::ZERO);
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("votes again in"), "{error}");
    let seen = lock.inspect().await.unwrap();
    assert!(seen.nodes.iter().all(|node| node.state == NodeState::Free));
    let why = seen.nodes[0].error.clone().unwrap();
    assert!(why.contains("votes again in"), "{why}");
    let error = lock.clone().ttl(Duration::from_secs(31)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("restart_guard"), "{error}");
}

#[tokio::test]
async fn a_server_old_enough_votes_again() {
    let nodes = servers(3);
    let urls = nodes.iter().map(Server::url);
    let guarded = builder(urls).restart_guard(millis(1500)).build().unwrap();
    let lock = guarded.lock("job").ttl(millis(1500)).wait(millis(20_000));
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_short_lease_does_not_cost_a_long_one_its_connection() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    let long = redlock.lock("long").ttl(Duration::from_secs(30)).acquire().await.unwrap();
    let short = redlock.lock("short").ttl(millis(300)).acquire().await.unwrap();
    let opened = proxy.connections.load(std::sync::atomic::Ordering::Relaxed);
    server.signal(libc::SIGSTOP);
    let error = short.lost().await;
    assert_eq!(error.reason(), Some("expired"));
    tokio::time::sleep(millis(300)).await;
    server.signal(libc::SIGCONT);
    tokio::time::sleep(millis(300)).await;
    long.ensure_held().unwrap();
    long.extend(Duration::from_secs(30)).await.unwrap();
    assert_eq!(proxy.connections.load(std::sync::atomic::Ordering::Relaxed), opened);
}

#[tokio::test]
async fn a_reset_connection_pays_its_owed_deletes_first() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    let lease = redlock.lock("job").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    proxy.set(Mode::Blackhole);
    let error = lease.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(server.ask("EXISTS lock:job"), ":1");
    proxy.set(Mode::Pass);
    proxy.reset();
    let end = Instant::now() + millis(5000);
    while server.ask("EXISTS lock:job") != ":0" {
        assert!(Instant::now() < end, "the delete was never sent again");
        tokio::time::sleep(millis(20)).await;
    }
}

#[tokio::test]
async fn rolling_restarts_leave_the_lease_on_every_node() {
    let mut nodes = servers(5);
    let guard = millis(500);
    let redlock = builder(nodes.iter().map(Server::url)).restart_guard(guard).build().unwrap();
    tokio::time::sleep(millis(2600)).await;
    let lock = redlock.lock("job").ttl(guard).wait(millis(10_000));
    let lease = lock.acquire().await.unwrap();
    for node in &mut nodes {
        node.kill();
        node.restart();
        let end = Instant::now() + millis(10_000);
        while node.ask("GET lock:job") != lease.token() {
            assert!(Instant::now() < end, "{} was not healed", node.url());
            lease.ensure_held().unwrap();
            tokio::time::sleep(millis(20)).await;
        }
    }
    assert_eq!(healed(&nodes, lease.token()), 5);
    lease.release().await.unwrap();
}

/// The holder has three of five; one of the three restarts empty and the other two, which were down, return.
async fn amnesia(run: usize) {
    let mut nodes = servers(5);
    let guard = millis(2000);
    let urls: Vec<String> = nodes.iter().map(Server::url).collect();
    let build = || builder(urls.clone()).restart_guard(guard).build().unwrap();
    let (one, two) = (build(), build());
    tokio::time::sleep(millis(4100)).await;
    nodes[3].kill();
    nodes[4].kill();
    let held = one.lock("job").ttl(guard).renew(false).wait(millis(5000)).acquire().await.unwrap();
    let (restarts, begun) = (run % 3, Instant::now());
    nodes[restarts].kill();
    nodes[restarts].restart();
    nodes[3].restart();
    nodes[4].restart();
    let newcomer = two.lock("job").ttl(guard / 5).wait(millis(20_000));
    loop {
        match newcomer.acquire().await {
            Ok(lease) => {
                assert!(!held.held(), "two holders in run {run}");
                lease.release().await.unwrap();
                return;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(begun.elapsed() < millis(20_000), "nobody got it in run {run}");
    }
}

#[tokio::test]
async fn nodes_that_forgot_do_not_let_a_second_holder_in() {
    let runs = rounds(4);
    let mut done = 0;
    while done < runs {
        let batch = (done..runs.min(done + 5)).map(|run| tokio::spawn(amnesia(run)));
        for run in batch.collect::<Vec<_>>() {
            run.await.unwrap();
            done += 1;
        }
    }
}

#[tokio::test]
async fn a_lock_that_is_deleted_on_one_node_after_the_other_is_not_put_back() {
    let nodes = servers(5);
    let redlock = client(&nodes);
    let lease = redlock.lock("job").acquire().await.unwrap();
    while nodes.iter().any(|node| node.ask("EXISTS lock:job") == ":0") {
        tokio::time::sleep(millis(1)).await;
    }
    for node in &nodes {
        // As a `force_release` whose deletes a busy machine delays: each push starts a check of its own.
        node.ask("DEL lock:job");
        tokio::time::sleep(millis(8)).await;
    }
    let told = tokio::time::timeout(millis(3000), lease.lost()).await;
    assert!(told.is_ok(), "put back before the last was deleted");
}

fn rounds(most: usize) -> usize {
    std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(most)
}
