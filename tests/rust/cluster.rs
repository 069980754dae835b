//! A Redis Cluster as one node: every slot, migrations and failovers during a lease, and refused configurations.

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::{Cluster, Server, builder, eventually, millis};

fn client(cluster: &Cluster) -> Redlock {
    builder([cluster.url()]).build().unwrap()
}

#[tokio::test]
async fn excludes_and_wakes_waiters_in_every_slot() {
    let cluster = Cluster::start(3, false);
    // One seed is enough, because it reports the other servers.
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
        eventually("a waiter", || two.stats().waiting == 1).await;
        lease.release().await.unwrap();
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    assert!(used.iter().all(|count| *count > 0), "{used:?}");
    let lease = one.lock(["{order}:1", "{order}:2"]).fencing(true).acquire().await.unwrap();
    assert!(lease.fencing_token().is_ok());
    assert!(two.force_release(["{order}:1", "{order}:2"]).await.unwrap());
    tokio::time::timeout(millis(5000), lease.lost()).await.unwrap();
}

#[tokio::test]
async fn detects_cluster_mode_on_first_connect() {
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
    let error = says(&[one(&cluster.masters[0], "redis")]).await;
    assert!(error.contains("Use redis+cluster://host:port"), "{error}");
    let error = says(&[one(&alone, "redis+cluster")]).await;
    assert!(error.contains("Use redis://host:port"), "{error}");
    let twice: Vec<String> =
        cluster.masters.iter().map(|master| one(master, "redis+cluster")).collect();
    let error = says(&twice).await;
    assert!(error.contains("it is the same server as"), "{error}");
}

#[tokio::test]
async fn refuses_names_of_several_slots_before_connecting() {
    let redlock = builder(["redis+cluster://127.0.0.1:1"]).build().unwrap();
    let error = redlock.lock(["foo", "{user1000}"]).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    for part in ["\"lock:foo\" in ", "\"lock:{user1000}\" in 3443", "{order}:1"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = redlock.force_release(["a", "b"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn shutdown_waits_for_a_delete_while_the_cluster_is_down() {
    let cluster = Cluster::start(2, false);
    let client = client(&cluster);
    let lease = client.lock("job").ttl(millis(60_000)).acquire().await.unwrap();
    let owner = cluster.owner_of("lock:job");
    cluster.take_down(0);
    drop(lease);
    let refused = || {
        let stats = cluster.masters[owner].text("INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
        let count = line.and_then(|line| line.split_once("rejected_calls=")?.1.split(',').next());
        count.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    eventually("the delete is refused", || refused() > 0).await;
    let shutdown = client.shutdown(millis(60_000));
    let mut shutdown = std::pin::pin!(shutdown);
    // By then a shutdown that overlooks the pending delete would have ended.
    let more = refused() + 3;
    let more = eventually("it is refused again", || refused() >= more);
    tokio::select! {
        biased;
        ended = &mut shutdown => panic!("{ended:?} before the delete was done"),
        () = more => {}
    }
    cluster.bring_up(0, 0);
    shutdown.await.unwrap();
    assert_eq!(cluster.masters[owner].ask("EXISTS lock:job"), ":0");
}
