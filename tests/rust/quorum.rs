//! Redlock over several nodes: minorities and majorities that are down, frozen, restarted or cut off.

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::{Mode, Proxy, Server, builder, client, eventually, millis, servers};

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
