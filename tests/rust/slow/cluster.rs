//! A Redis Cluster as one node: every slot, migrations and failovers during a lease, and refused configurations.

use std::time::{Duration, Instant};

use redlock::Redlock;

use crate::support::{Cluster, builder, millis, wait};

fn client(cluster: &Cluster) -> Redlock {
    builder([cluster.url()]).build().unwrap()
}

// Slow: the slot moves for several TTLs.
#[tokio::test]
async fn lease_is_held_while_its_slot_moves() {
    let cluster = Cluster::start(3, false);
    let (one, two) = (client(&cluster), client(&cluster));
    let lease = one.lock("job").ttl(millis(2000)).acquire().await.unwrap();
    let (begun, mut at) = (Instant::now(), 0);
    while at < 20 || begun.elapsed() < millis(5000) {
        cluster.move_slot("lock:job", at % 3);
        at += 1;
        if two.lock("job").try_acquire().await.unwrap().is_some() {
            assert!(!lease.is_held(), "two holders");
        }
        assert_eq!(lease.lost_reason(), None);
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
async fn manual_failover_keeps_leases() {
    let cluster = Cluster::start(3, true);
    let (one, two) = (client(&cluster), client(&cluster));
    let lease = one.lock("job").ttl(millis(2000)).acquire().await.unwrap();
    let owner = cluster.owner_of("lock:job");
    wait(|| cluster.replicas[owner].text("READONLY\r\nGET lock:job").contains(lease.token()));
    assert_eq!(cluster.replicas[owner].ask("CLUSTER FAILOVER"), "+OK");
    wait(|| cluster.replicas[owner].info("replication", "role").as_deref() == Some("master"));
    let begun = Instant::now();
    while begun.elapsed() < millis(3000) {
        assert!(lease.is_held());
        assert!(two.lock("job").try_acquire().await.unwrap().is_none());
        tokio::time::sleep(millis(50)).await;
    }
    lease.release().await.unwrap();
    two.lock("job").wait(millis(2000)).acquire().await.unwrap().release().await.unwrap();
}

// Slow: a failover of a real cluster.
#[tokio::test]
async fn crash_failover_keeps_the_lock_or_notifies_its_holder() {
    let mut cluster = Cluster::start(3, true);
    let (one, two) = (client(&cluster), client(&cluster));
    let kept = one.lock("{a}kept").ttl(millis(20_000)).acquire().await.unwrap();
    let owner = cluster.owner_of("{a}");
    let replica = &cluster.replicas[owner];
    wait(|| replica.text("READONLY\r\nGET lock:{a}kept").contains(kept.token()));
    // From now on, no grant of the master reaches it.
    replica.signal(libc::SIGSTOP);
    assert_eq!(cluster.masters[owner].ask("CLIENT KILL TYPE replica"), ":1");
    let lost = one.lock("{a}lost").ttl(millis(20_000)).acquire().await.unwrap();
    cluster.masters[owner].kill();
    cluster.replicas[owner].signal(libc::SIGCONT);
    let waiting = tokio::spawn(two.lock("{a}lost").wait(millis(20_000)).acquire());
    tokio::time::timeout(millis(15_000), lost.lost()).await.expect("notified of the loss");
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(kept.is_held());
    assert!(two.lock("{a}kept").try_acquire().await.unwrap().is_none());
    kept.release().await.unwrap();
}

/// Names in slots of this master.
fn names_at(cluster: &Cluster, master: usize) -> impl Iterator<Item = String> {
    let is_there = move |name: &String| cluster.owner_of(&format!("lock:{name}")) == master;
    (0..10_000).map(|at| format!("job-{at}")).filter(is_there)
}

// Slow: a cluster with distant servers, and leases that are renewed for seconds.
#[tokio::test]
async fn cut_off_master_does_not_decide_slot_owners() {
    let (cluster, url) = Cluster::with_one_near();
    let client = builder([url]).build().unwrap();
    let name = names_at(&cluster, 0).next().unwrap();
    let ttl = Duration::from_secs(9);
    let lock = client.lock(&*name).ttl(ttl).wait(millis(10_000));
    let lease = lock.acquire().await.unwrap();
    // The client knows all servers.
    for master in 1..3 {
        let name = names_at(&cluster, master).next().unwrap();
        drop(client.lock(name).ttl(ttl).wait(millis(10_000)).acquire().await.unwrap());
    }
    let (stale, new) = (&cluster.masters[0], &cluster.replicas[0]);
    for other in cluster.masters[1..].iter().chain(&cluster.replicas) {
        let id = other.ask("CLUSTER MYID");
        assert_eq!(stale.ask(&format!("CLUSTER FORGET {id}")), "+OK");
    }
    assert_eq!(new.ask("CLUSTER FAILOVER TAKEOVER"), "+OK");
    wait(|| new.info("replication", "role").as_deref() == Some("master"));
    // Simulates a replica that had not received the lock yet.
    assert_eq!(new.ask("FLUSHALL"), "+OK");
    let lost = tokio::time::timeout(ttl + millis(1000), lease.lost()).await.expect("notified");
    assert_eq!(lost.reason(), Some("missing"), "{lost}");
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// Commands per second, over some seconds.
async fn rate(cluster: &Cluster) -> u64 {
    tokio::time::sleep(millis(1500)).await;
    let (before, begun) = (cluster.commands(), Instant::now());
    tokio::time::sleep(millis(3000)).await;
    let count = cluster.commands() - before;
    let rate = count * 1000 / u64::try_from(begun.elapsed().as_millis()).unwrap();
    println!("{rate} commands/s");
    rate
}

// Slow: an upper bound on commands in a time is the subject.
#[tokio::test]
async fn down_cluster_is_queried_rarely() {
    let cluster = Cluster::start(3, false);
    let client = client(&cluster);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for at in 0..20 {
        held.push(client.lock(format!("job-{at}")).ttl(millis(30_000)).acquire().await.unwrap());
    }
    cluster.take_down(0);
    for at in 20..40 {
        waiting.push(tokio::spawn(client.lock(format!("job-{at}")).ttl(millis(10_000)).acquire()));
    }
    held.clear();
    let rate = rate(&cluster).await;
    assert!(rate < 800, "{rate} commands/s");
    cluster.bring_up(0, 0);
    for waiting in waiting {
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    let keys = || cluster.masters.iter().map(|master| master.ask("DBSIZE"));
    wait(|| keys().all(|count| count == ":0"));
}

// Slow: an upper bound on commands in a time is the subject.
#[tokio::test]
async fn disputed_slot_does_not_affect_others() {
    let cluster = Cluster::start(3, false);
    let client = client(&cluster);
    let other = names_at(&cluster, 0).next().unwrap();
    let mut held = Vec::new();
    for at in 0..100 {
        let name = format!("held-{at}");
        held.push(client.lock(name.as_str()).ttl(millis(30_000)).acquire().await.unwrap());
    }
    let quiet = rate(&cluster).await;
    let (owner, to) = (&cluster.masters[0], &cluster.masters[1]);
    let slot = owner.ask(&format!("CLUSTER KEYSLOT lock:{other}")).split_off(1);
    let id = to.ask("CLUSTER MYID");
    assert_eq!(owner.ask(&format!("CLUSTER SETSLOT {slot} NODE {id}")), "+OK");
    let acquire = || client.lock(&*other).acquire();
    let waiting: Vec<_> = (0..5)
        .map(|_| acquire())
        .map(|acquire| tokio::spawn(async { acquire.await.unwrap().release().await }))
        .collect();
    let disturbed = rate(&cluster).await;
    assert!(disturbed < quiet + 300, "{quiet}, then {disturbed} commands/s");
    assert!(held.iter().all(|lease| lease.is_held()));
    assert_eq!(to.ask(&format!("CLUSTER SETSLOT {slot} NODE {id}")), "+OK");
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
}
