//! Redlock over several nodes: minorities and majorities that are down, frozen, restarted or cut off.

use std::time::{Duration, Instant};

use redlock::ErrorKind;

use crate::support::{DELAY, Mode, Proxy, Server, builder, client, millis, servers};

// Slow: an acquire tries for four seconds over slow links.
#[tokio::test]
async fn lease_too_short_for_its_network_fails_and_blocks_no_other_client() {
    let nodes = servers(3);
    let proxies: Vec<Proxy> = nodes.iter().map(|node| Proxy::to(node.port)).collect();
    let urls = proxies.iter().map(Proxy::url);
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    proxies.iter().for_each(|proxy| proxy.set(Mode::Delay));
    // Replies arrive in time for a vote, and too late for the rest of the lease under `max_hold`.
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
    assert!(error.to_string().contains("the lease lasts only 0.120 s"), "{error}");
}

// Slow: two servers are frozen, and an upper bound on a duration is the subject.
#[tokio::test]
async fn does_not_wait_for_a_frozen_minority() {
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

fn nodes_with_key(nodes: &[Server], token: &str) -> usize {
    nodes.iter().filter(|node| node.ask("GET lock:job") == token).count()
}

// Slow: the server is frozen.
#[tokio::test]
async fn short_lease_does_not_break_a_long_leases_connection() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    let long = redlock.lock("long").ttl(Duration::from_secs(30)).acquire().await.unwrap();
    let short = redlock.lock("short").ttl(millis(300)).acquire().await.unwrap();
    server.signal(libc::SIGSTOP);
    let error = short.lost().await;
    assert_eq!(error.reason(), Some("expired"));
    tokio::time::sleep(millis(300)).await;
    server.signal(libc::SIGCONT);
    tokio::time::sleep(millis(300)).await;
    long.ensure_held().unwrap();
    long.extend(Duration::from_secs(30)).await.unwrap();
    assert_eq!(redlock.stats().reconnects, 0);
}

// Slow: the servers must be older than the restart guard.
#[tokio::test]
async fn rolling_restarts_keep_the_lease_on_every_node() {
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
    assert_eq!(nodes_with_key(&nodes, lease.token()), 5);
    lease.release().await.unwrap();
}

/// The holder has three of five nodes. One of the three restarts without data, and the other two, which were down,
/// return.
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
                assert!(!held.is_held(), "two holders in run {run}");
                lease.release().await.unwrap();
                return;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(begun.elapsed() < millis(20_000), "no client acquired it in run {run}");
    }
}

// Slow: the servers must be older than the restart guard, and are killed and restarted.
#[tokio::test]
async fn nodes_without_data_admit_no_second_holder() {
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

// Slow: the deletes must be milliseconds apart.
#[tokio::test]
async fn deletes_on_successive_nodes_are_not_healed() {
    let nodes = servers(5);
    let redlock = client(&nodes);
    let lease = redlock.lock("job").acquire().await.unwrap();
    while nodes.iter().any(|node| node.ask("EXISTS lock:job") == ":0") {
        tokio::time::sleep(millis(1)).await;
    }
    for node in &nodes {
        // Like a `force_release` whose deletes a busy machine delays. Each push starts a separate check.
        node.ask("DEL lock:job");
        tokio::time::sleep(millis(8)).await;
    }
    let notified = tokio::time::timeout(millis(3000), lease.lost()).await;
    assert!(notified.is_ok(), "put back before the last was deleted");
}

fn rounds(most: usize) -> usize {
    std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(most)
}
