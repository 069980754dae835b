//! Primaries under Sentinel, with real servers and sentinels. The client finds and follows them, and does not trust a
//! server that is not a primary.

use std::time::{Duration, Instant};

use redlock::{NodeState, Redlock};

use crate::support::{Sentinels, builder, millis};

/// The time of a failover, with a margin.
const FAILOVER_LIMIT: Duration = Duration::from_secs(30);

fn client(sentinels: &Sentinels) -> Redlock {
    builder([sentinels.url(0)]).build().unwrap()
}

// Slow: the sentinels must be older than the restart guard.
#[tokio::test]
async fn quorum_of_services_excludes_a_new_primary_at_first() {
    let sentinels = Sentinels::start(3, 1);
    let urls = || (0..3).map(|service| sentinels.url(service));
    let guard = millis(8000);
    let made = || builder(urls()).restart_guard(guard).build().unwrap();
    let redlock = made();
    // The sentinels are young too. They cannot have known these primaries for longer than the guard.
    tokio::time::sleep(guard + millis(3500)).await;
    let lease = redlock.lock("job").ttl(millis(5000)).wait(FAILOVER_LIMIT).acquire().await.unwrap();
    let old = sentinels.services[0].servers[0].port;
    sentinels.fail_over(0);
    sentinels.wait_switched(0, old);
    let switched = Instant::now();
    // A client from before, and a new client that sees a server with a long uptime. Both know that it is a new primary.
    for client in [&redlock, &made()] {
        let votes = client
            .lock("other")
            .ttl(millis(5000))
            .try_acquire()
            .await
            .unwrap()
            .expect("two of three");
        let seen = client.lock("other").ttl(millis(5000)).inspect().await.unwrap();
        let states: Vec<_> = seen.nodes.iter().map(|node| node.state.as_str()).collect();
        assert_eq!(states, ["free", "held", "held"], "{:?}", switched.elapsed());
        votes.release().await.unwrap();
    }
    assert!(switched.elapsed() < guard, "too slow to see anything");
    // An existing lease continues there too.
    lease.extend(millis(7000)).await.unwrap();
    tokio::time::sleep(guard.saturating_sub(switched.elapsed()) + millis(3500)).await;
    for client in [&redlock, &made()] {
        let lease = client.lock("other").ttl(millis(5000)).try_acquire().await.unwrap().unwrap();
        let seen = client.lock("other").ttl(millis(5000)).inspect().await.unwrap();
        assert!(seen.nodes.iter().all(|node| node.state == NodeState::Held), "{seen:?}");
        lease.release().await.unwrap();
    }
}
