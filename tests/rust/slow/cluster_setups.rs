//! All documented cluster setups: several clusters as a quorum, required replicas, TLS, and changing credentials.

use std::time::{Duration, Instant};

use redlock::{ErrorKind, Redlock};

use crate::support::{Cluster, Server, alone, member, millis, wait};

fn url(server: &Server) -> String {
    server.url().replacen("redis", "redis+cluster", 1)
}

// Slow: servers are killed, and the lease is held for half its TTL after that.
#[tokio::test]
async fn several_clusters_are_a_quorum() {
    let mut clusters: Vec<Server> = (0..3).map(|_| alone(&[])).collect();
    let client = || {
        let urls: Vec<String> = clusters.iter().map(url).collect();
        Redlock::builder(urls).restart_guard(Duration::ZERO).build().unwrap()
    };
    let (one, two) = (client(), client());
    let lease = one.lock("job").ttl(millis(3000)).fencing(true).acquire().await.unwrap();
    let token = lease.fencing_token().unwrap();
    clusters[0].kill();
    tokio::time::sleep(millis(1500)).await;
    lease.extend(millis(5000)).await.unwrap();
    assert!(two.lock("job").try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(two.lock("job").fencing(true).wait(millis(5000)).acquire());
    tokio::time::sleep(millis(100)).await;
    lease.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > token);
    next.release().await.unwrap();
    clusters[1].kill();
    let error = one.lock("job").wait(millis(500)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // No key is left behind on a node that voted.
    wait(|| clusters[2].ask("EXISTS lock:job") == ":0");
}

// Slow: the servers must be older than the restart guard.
#[tokio::test]
async fn promoted_unknown_replica_rejects_first_votes() {
    let mut clusters: Vec<Server> = (0..3).map(|_| alone(&[])).collect();
    let replica = member(&[]);
    let guard = millis(3000);
    tokio::time::sleep(millis(5100)).await; // all are old enough
    let urls: Vec<String> = clusters.iter().map(url).collect();
    let client = Redlock::builder(urls).restart_guard(guard).build().unwrap();
    let lock = client.lock("job").ttl(millis(2000));
    // The client reads the map now, which has no replica.
    lock.acquire().await.unwrap().release().await.unwrap();
    let master = &clusters[0];
    assert_eq!(replica.ask(&format!("CLUSTER MEET 127.0.0.1 {}", master.port)), "+OK");
    let id = master.ask("CLUSTER MYID");
    wait(|| {
        replica.text("CLUSTER NODES").contains(&id)
            && replica.ask("CLUSTER INFO") == "cluster_state:ok"
    });
    assert_eq!(replica.ask(&format!("CLUSTER REPLICATE {id}")), "+OK");
    wait(|| replica.info("replication", "master_link_status").as_deref() == Some("up"));
    assert_eq!(replica.ask("CLUSTER FAILOVER TAKEOVER"), "+OK");
    wait(|| master.info("replication", "role").as_deref() == Some("slave"));
    // Its vote is required.
    clusters[1].kill();
    let (begun, mut seen) = (Instant::now(), false);
    loop {
        match lock.try_acquire().await {
            Ok(Some(_)) => break,
            Ok(None) => {}
            Err(error) => seen |= error.to_string().contains("grants new leases in"),
        }
        assert!(begun.elapsed() < millis(20_000), "it never votes again");
        tokio::time::sleep(millis(50)).await;
    }
    assert!(seen, "no log line says why");
    assert!(begun.elapsed() >= guard, "{:?}", begun.elapsed());
}

// Slow: a replica is frozen, and an upper bound on a duration is the subject.
#[tokio::test]
async fn unreplicated_cluster_vote_is_not_a_grant() {
    let cluster = Cluster::start(1, true);
    let client = Redlock::builder([cluster.url()]).min_replicas(1).build().unwrap();
    let lease = client.lock("job").ttl(millis(1500)).acquire().await.unwrap();
    assert_eq!(cluster.replicas[0].ask("DBSIZE"), ":1");
    cluster.replicas[0].signal(libc::SIGSTOP);
    let cut = Instant::now();
    let error = tokio::time::timeout(millis(6000), lease.lost()).await.expect("notified in time");
    assert_eq!(error.reason(), Some("expired"), "{error}");
    assert!(cut.elapsed() < millis(1500), "{:?}", cut.elapsed());
    let lock = client.lock("other").node_timeout(millis(500)).wait(Duration::ZERO);
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.nodes()[0].error.clone().unwrap().contains("reached 0 of 1 replicas"), "{error}");
    wait(|| cluster.masters[0].ask("EXISTS lock:other") == ":0");
    cluster.replicas[0].signal(libc::SIGCONT);
    let back = client.lock("other").wait(millis(10_000)).acquire().await.unwrap();
    back.release().await.unwrap();
}
