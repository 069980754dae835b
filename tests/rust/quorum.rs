//! Redlock over several nodes: minorities and majorities that are down, frozen, restarted or cut off.

use std::time::{Duration, Instant};

use redlock::{ErrorKind, NodeState, Redlock};

use crate::support::{Mode, Proxy, Server, builder, client, eventually, millis, servers};

#[tokio::test]
async fn dead_minority_has_no_effect() {
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
async fn dead_majority_fails_in_time_and_leaves_no_key() {
    let mut nodes = servers(5);
    let redlock = client(&nodes);
    for node in &mut nodes[2..] {
        node.kill();
    }
    let error = redlock.lock("job").wait(millis(1000)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        error.nodes().iter().filter(|node| node.state == NodeState::Fault).count(),
        3,
        "{error}"
    );
    eventually("no key", || nodes[..2].iter().all(|node| node.ask("EXISTS lock:job") == ":0"))
        .await;
}

/// One node of three still has the key, one has lost it, and one is down. The others could confirm the lease or deny
/// it.
#[tokio::test]
async fn attach_without_a_quorum_blames_the_node_that_is_down() {
    let mut nodes = servers(3);
    let (one, two) = (client(&nodes), client(&nodes));
    let lease = one.lock("job").acquire().await.unwrap();
    let token = lease.token().to_owned();
    for node in &nodes {
        eventually("the key", || node.ask("EXISTS lock:job") == ":1").await;
    }
    assert!(lease.detach());
    nodes[0].kill();
    assert_eq!(nodes[1].ask("DEL lock:job"), ":1");
    let error = two.lock("job").attach(&token).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(
        text.contains("no quorum. 1 of 3 nodes failed") && !text.contains("too short"),
        "{text}"
    );
}

#[tokio::test]
async fn even_node_counts_work_and_a_tie_fails_in_time() {
    for count in [2, 4] {
        let nodes = servers(count);
        let (one, two) = (client(&nodes), client(&nodes));
        for node in &nodes[..count / 2] {
            node.ask("SET lock:job other PX 600");
        }
        assert!(one.lock("job").try_acquire().await.unwrap().is_none());
        let lease = one.lock("job").wait(millis(5000)).acquire().await.unwrap();
        assert!(two.lock("job").try_acquire().await.unwrap().is_none());
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn split_votes_are_rolled_back_and_retried() {
    let nodes = servers(3);
    let mut contenders = Vec::new();
    for _ in 0..8 {
        let redlock = client(&nodes);
        contenders.push(tokio::spawn(async move {
            let lease = redlock.lock("job").wait(millis(20_000)).acquire().await.unwrap();
            tokio::task::yield_now().await;
            lease.release().await.unwrap();
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    eventually("no key", || nodes.iter().all(|node| node.ask("DBSIZE") == ":0")).await;
}

#[tokio::test]
async fn renewal_restores_a_lost_key() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    // Long enough for a machine that loses a second. The missing vote is added long before the first renewal.
    let lease = redlock.lock("job").ttl(millis(10_000)).acquire().await.unwrap();
    // Two votes are enough for the lease, and two deletes for its release. The third vote may still be in flight. On a
    // busy machine it may also have been refused because of an earlier round. Without it, the delete below would leave
    // no quorum.
    eventually("granted", || nodes.iter().all(|node| node.ask("GET lock:job") == lease.token()))
        .await;
    nodes[2].ask("DEL lock:job");
    eventually("healed", || nodes[2].ask("GET lock:job") == lease.token()).await;
    lease.ensure_held().unwrap();
    lease.release().await.unwrap();
    eventually("released", || nodes.iter().all(|node| node.ask("EXISTS lock:job") == ":0")).await;
}

#[tokio::test]
async fn key_loss_on_a_majority_ends_the_lease_at_once() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    let lease = redlock.lock("job").ttl(millis(30_000)).acquire().await.unwrap();
    nodes[0].ask("DEL lock:job");
    nodes[1].ask("DEL lock:job");
    // Either both deletes came first, or the first node was healed. A third delete makes sure.
    nodes[2].ask("DEL lock:job");
    nodes[0].ask("DEL lock:job");
    let error = tokio::time::timeout(millis(5000), lease.lost()).await;
    if error.is_err() {
        assert!(
            lease.is_held() && nodes_with_key(&nodes, lease.token()) >= 2,
            "held without a quorum"
        );
    }
}

fn nodes_with_key(nodes: &[Server], token: &str) -> usize {
    nodes.iter().filter(|node| node.ask("GET lock:job") == token).count()
}

#[tokio::test]
async fn notifies_a_cut_off_holder_before_another_can_acquire() {
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
        assert!(!lease.is_held(), "two holders");
        let (error, notified) = lost.await.unwrap();
        assert_eq!(error.reason(), Some("expired"));
        assert!(notified <= Instant::now());
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
async fn restarted_server_rejects_first_votes_and_reports_for_how_long() {
    let nodes = servers(3);
    let urls = nodes.iter().map(Server::url);
    let guarded = builder(urls).restart_guard(Duration::from_secs(30)).build().unwrap();
    let lock = guarded.lock("job").wait(Duration::ZERO);
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("grants new leases in"), "{error}");
    let seen = lock.inspect().await.unwrap();
    assert!(seen.nodes.iter().all(|node| node.state == NodeState::Free));
    let why = seen.nodes[0].error.clone().unwrap();
    assert!(why.contains("grants new leases in"), "{why}");
    let error = lock.clone().ttl(Duration::from_secs(31)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("restart_guard"), "{error}");
}

#[tokio::test]
async fn server_votes_again_after_the_restart_guard() {
    let nodes = servers(3);
    let urls = nodes.iter().map(Server::url);
    let guarded = builder(urls).restart_guard(millis(1500)).build().unwrap();
    let lock = guarded.lock("job").ttl(millis(1500)).wait(millis(20_000));
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn reset_connection_flushes_pending_deletes_first() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    let lease = redlock.lock("job").ttl(Duration::from_secs(120)).acquire().await.unwrap();
    proxy.set(Mode::Blackhole);
    let error = lease.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(server.ask("EXISTS lock:job"), ":1");
    proxy.set(Mode::Pass);
    proxy.reset();
    // Otherwise the key would stay for its TTL of two minutes.
    eventually("the delete is sent again", || server.ask("EXISTS lock:job") == ":0").await;
}

#[tokio::test]
async fn default_restart_guard_limits_the_ttl() {
    for (count, is_limited) in [(1, false), (3, true)] {
        let nodes = (0..count).map(|at| format!("memory://guard-{at}"));
        let lock = Redlock::builder(nodes).build().unwrap().lock("job").ttl(millis(61_000));
        let refused = lock.acquire().await.err();
        assert_eq!(refused.map(|error| error.kind()), is_limited.then_some(ErrorKind::Invalid));
    }
}
