//! A Redis Cluster as one node: every slot, migrations and failovers under a holder, and what is refused.

use std::time::Instant;

use redlock::Redlock;

use crate::support::{Cluster, builder, millis, wait};

fn client(cluster: &Cluster) -> Redlock {
    builder([cluster.url()]).build().unwrap()
}

// Slow: the slot moves for several TTLs.
#[tokio::test]
async fn a_lease_is_held_while_its_slot_moves_on() {
    let cluster = Cluster::start(3, false);
    let (one, two) = (client(&cluster), client(&cluster));
    let lease = one.lock("job").ttl(millis(600)).acquire().await.unwrap();
    let (begun, mut at) = (Instant::now(), 0);
    while at < 20 || begun.elapsed() < millis(1500) {
        cluster.move_slot("lock:job", at % 3);
        at += 1;
        assert!(lease.held());
        assert!(two.lock("job").try_acquire().await.unwrap().is_none());
        tokio::time::sleep(millis(30)).await;
    }
    let waiting = tokio::spawn(two.lock("job").wait(millis(5000)).acquire());
    tokio::time::sleep(millis(50)).await;
    cluster.move_slot("lock:job", at % 3);
    lease.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(one.lock("job").try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();
    let owner = cluster.owner_of("lock:job");
    assert_eq!(cluster.masters[owner].ask("EXISTS lock:job"), ":0");
}

// Slow: a failover of a real cluster.
#[tokio::test]
async fn a_failover_by_hand_costs_no_lease() {
    let cluster = Cluster::start(3, true);
    let (one, two) = (client(&cluster), client(&cluster));
    let lease = one.lock("job").ttl(millis(2000)).acquire().await.unwrap();
    let owner = cluster.owner_of("lock:job");
    wait(|| cluster.replicas[owner].text("READONLY\r\nGET lock:job").contains(lease.token()));
    assert_eq!(cluster.replicas[owner].ask("CLUSTER FAILOVER"), "+OK");
    wait(|| cluster.replicas[owner].info("replication", "role").as_deref() == Some("master"));
    let begun = Instant::now();
    while begun.elapsed() < millis(3000) {
        assert!(lease.held());
        assert!(two.lock("job").try_acquire().await.unwrap().is_none());
        tokio::time::sleep(millis(50)).await;
    }
    lease.release().await.unwrap();
    two.lock("job").wait(millis(2000)).acquire().await.unwrap().release().await.unwrap();
}

// Slow: a failover of a real cluster.
#[tokio::test]
async fn after_a_crash_the_new_master_has_the_lock_or_its_holder_is_told() {
    let mut cluster = Cluster::start(3, true);
    let (one, two) = (client(&cluster), client(&cluster));
    let kept = one.lock("{a}kept").ttl(millis(20_000)).acquire().await.unwrap();
    let owner = cluster.owner_of("{a}");
    let replica = &cluster.replicas[owner];
    wait(|| replica.text("READONLY\r\nGET lock:{a}kept").contains(kept.token()));
    // What the master grants from now on never reaches it.
    replica.signal(libc::SIGSTOP);
    assert_eq!(cluster.masters[owner].ask("CLIENT KILL TYPE replica"), ":1");
    let lost = one.lock("{a}lost").ttl(millis(20_000)).acquire().await.unwrap();
    cluster.masters[owner].kill();
    cluster.replicas[owner].signal(libc::SIGCONT);
    let waiting = tokio::spawn(two.lock("{a}lost").wait(millis(20_000)).acquire());
    tokio::time::timeout(millis(15_000), lost.lost()).await.expect("told of the loss");
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(kept.held());
    assert!(two.lock("{a}kept").try_acquire().await.unwrap().is_none());
    kept.release().await.unwrap();
}
