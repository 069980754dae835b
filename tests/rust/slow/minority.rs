//! A node that is down or wrong costs the other nodes nothing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::support::{Mode, Proxy, Server, builder, client, eventually, millis, servers};

// Slow: a connection must stay silent until it is given up, and 11,000 pairs follow.
#[tokio::test]
async fn unsent_votes_evict_no_pending_delete() {
    let nodes = servers(3);
    let proxy = Proxy::to(nodes[0].port);
    let urls = [proxy.url(), nodes[1].url(), nodes[2].url()];
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    let lease = redlock.lock("pending").ttl(Duration::from_secs(300)).acquire().await.unwrap();
    let end = Instant::now() + millis(60_000);
    while nodes[0].ask("EXISTS lock:pending") != ":1" {
        assert!(Instant::now() < end, "no vote");
        tokio::time::sleep(millis(5)).await;
    }
    let connections = || proxy.connections.load(Ordering::Relaxed);
    eventually("the connection for notifications", || connections() >= 2).await;
    let before = connections();
    proxy.set(Mode::Blackhole);
    lease.release().await.unwrap();
    // Another connection is opened after both old ones are given up. From then on, no vote is sent to this node. Votes
    // that were sent would need pending deletes too.
    eventually("another connection", || connections() > before).await;
    for batch in 0..110 {
        let cycle = async |at: usize| {
            let lease = redlock.lock(format!("job-{batch}-{at}")).acquire().await.unwrap();
            lease.release().await.unwrap();
        };
        join_all((0..100).map(cycle)).await;
        assert!(Instant::now() < end, "too slow");
    }
    assert_eq!(nodes[0].ask("EXISTS lock:pending"), ":1");
    proxy.set(Mode::Pass);
    proxy.reset();
    let end = Instant::now() + millis(60_000);
    while nodes[0].ask("EXISTS lock:pending") != ":0" {
        assert!(Instant::now() < end, "the pending delete is lost");
        tokio::time::sleep(millis(20)).await;
    }
}

fn scripts(server: &Server) -> u64 {
    let stats = server.info("commandstats", "cmdstat_evalsha").unwrap_or_default();
    stats
        .strip_prefix("calls=")
        .map_or(0, |stats| stats.split(',').next().unwrap().parse().unwrap())
}

// Slow: commands are counted for four seconds.
#[tokio::test]
async fn dead_node_causes_no_repeated_checks() {
    let mut nodes = servers(3);
    let redlock = client(&nodes);
    let take = |at: usize| redlock.lock(format!("job-{at}")).ttl(Duration::from_secs(60)).acquire();
    let leases = join_all((0..200).map(take)).await;
    nodes[0].kill();
    tokio::time::sleep(millis(500)).await;
    let before = scripts(&nodes[1]);
    tokio::time::sleep(millis(4000)).await;
    let asked = scripts(&nodes[1]) - before;
    assert!(asked < 200, "{asked} scripts for 200 leases");
    assert!(leases.iter().all(|lease| lease.as_ref().unwrap().is_held()));
}
