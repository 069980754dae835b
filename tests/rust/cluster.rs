//! A Redis Cluster as one node: every slot, migrations and failovers under a holder, and what is refused.

use std::time::{Duration, Instant};

use redlock::{ErrorKind, Redlock};

use crate::support::{Cluster, Server, builder, millis, wait};

fn client(cluster: &Cluster) -> Redlock {
    builder([cluster.url()]).build().unwrap()
}

#[tokio::test]
async fn locks_of_all_slots_exclude_and_waiters_are_woken() {
    let cluster = Cluster::start(3, false);
    // One seed is enough: it tells of the others.
    let seed = format!("redis+cluster://127.0.0.1:{}", cluster.masters[2].port);
    let (one, two) = (client(&cluster), builder([seed]).build().unwrap());
    let mut used = [0; 3];
    for at in 0..30 {
        let name = format!("job-{at}");
        let lease = one.lock(&*name).ttl(millis(30_000)).acquire().await.unwrap();
        used[cluster.owner_of(&lease.key())] += 1;
        assert!(two.lock(&*name).try_acquire().await.unwrap().is_none());
        let theirs = two.lock(&*name).wait(millis(5000));
        let waiter = tokio::spawn(async move { theirs.acquire().await });
        tokio::time::sleep(millis(5)).await;
        lease.release().await.unwrap();
        let begun = Instant::now();
        waiter.await.unwrap().unwrap().release().await.unwrap();
        // A push, not the fallback of a second or more.
        assert!(begun.elapsed() < millis(500), "{:?}", begun.elapsed());
    }
    assert!(used.iter().all(|count| *count > 0), "{used:?}");
    let lease = one.lock(["{order}:1", "{order}:2"]).fencing(true).acquire().await.unwrap();
    assert!(lease.fencing_token().is_ok());
    assert!(two.force_release(["{order}:1", "{order}:2"]).await.unwrap());
    tokio::time::timeout(millis(5000), lease.lost()).await.unwrap();
}

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

#[tokio::test]
async fn what_is_no_cluster_and_what_is_one_are_told_apart_at_the_first_connect() {
    let (cluster, alone) = (Cluster::start(2, false), Server::start());
    let says = async |urls: &[String]| {
        let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
        let lock = redlock.lock("job").ttl(millis(3000));
        let error = tokio::time::timeout(millis(10_000), lock.acquire()).await;
        let error = error.expect("an answer").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{urls:?}: {error}");
        error.to_string()
    };
    let one = |server: &Server, scheme: &str| format!("{scheme}://127.0.0.1:{}", server.port);
    let said = says(&[one(&cluster.masters[0], "redis")]).await;
    assert!(said.contains("use redis+cluster://host:port"), "{said}");
    let said = says(&[one(&alone, "redis+cluster")]).await;
    assert!(said.contains("use redis://host:port"), "{said}");
    let twice: Vec<String> =
        cluster.masters.iter().map(|master| one(master, "redis+cluster")).collect();
    let said = says(&twice).await;
    assert!(said.contains("it is the same server as"), "{said}");
}

#[tokio::test]
async fn names_of_several_slots_are_refused_before_anything_connects() {
    let redlock = builder(["redis+cluster://127.0.0.1:1"]).build().unwrap();
    let error = redlock.lock(["foo", "{user1000}"]).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    for part in ["\"lock:foo\" in ", "\"lock:{user1000}\" in 3443", "{order}:1"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = redlock.force_release(["a", "b"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
