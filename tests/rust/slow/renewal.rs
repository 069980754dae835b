//! Active leases are renewed in time, and a loss is reported in time. This holds for any round, TTL or failed minority.

use std::time::{Duration, Instant};

use crate::support::{Mode, Proxy, Server, builder, client, millis, servers};

// Slow: the server is frozen for a second.
#[tokio::test]
async fn lease_of_a_slow_round_is_renewed_at_once() {
    let server = Server::start();
    let redlock = client([&server]);
    // The renewal loop wakes next after the deadline of this lease.
    let other = redlock.lock("other").ttl(millis(4500)).acquire().await.unwrap();
    server.signal(libc::SIGSTOP);
    let pid = server.pid();
    let woken = std::thread::spawn(move || {
        std::thread::sleep(millis(1100));
        // SAFETY: the server outlives the thread, which is joined.
        unsafe { libc::kill(pid, libc::SIGCONT) }
    });
    let lock = redlock.lock("job").ttl(millis(1500)).node_timeout(millis(1400));
    let lease = lock.acquire().await.unwrap();
    woken.join().unwrap();
    assert!(lease.remaining() < millis(500));
    tokio::time::sleep(millis(2500)).await;
    lease.ensure_held().unwrap();
    drop(other);
}

// Slow: one server is dead and another one is slow.
#[tokio::test]
async fn reports_a_loss_although_one_node_is_dead() {
    let mut nodes = servers(3);
    let slow = Proxy::to(nodes[2].port);
    let urls = [nodes[0].url(), nodes[1].url(), slow.url()];
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    let lease = redlock.lock("job").ttl(Duration::from_secs(30)).acquire().await.unwrap();
    nodes[0].kill();
    slow.set(Mode::Delay);
    tokio::time::sleep(millis(200)).await;
    let begun = Instant::now();
    nodes[1].ask("DEL lock:job");
    nodes[2].ask("DEL lock:job");
    let error = tokio::time::timeout(Duration::from_secs(8), lease.lost()).await.unwrap();
    assert_eq!(error.reason(), Some("missing"), "{error}, after {:?}", begun.elapsed());
}

// Slow: a server is frozen for five seconds.
#[tokio::test]
async fn ttl_below_node_timeout_survives_a_frozen_minority() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    let lock = redlock.lock("job").ttl(millis(2000)).node_timeout(millis(1900));
    let lease = lock.acquire().await.unwrap();
    tokio::time::sleep(millis(100)).await;
    nodes[2].signal(libc::SIGSTOP);
    lease.extend(millis(320)).await.unwrap();
    tokio::time::sleep(millis(5000)).await;
    let held = lease.ensure_held();
    nodes[2].signal(libc::SIGCONT);
    held.unwrap();
}

// Slow: 60 rounds wait for votes that are late.
#[tokio::test]
async fn first_lease_reaches_every_node_at_once() {
    let nodes = servers(3);
    for round in 0..60 {
        let redlock = client(&nodes);
        let name = format!("job-{round}");
        let lease = redlock.lock(&*name).ttl(Duration::from_secs(30)).acquire().await.unwrap();
        tokio::time::sleep(millis(60)).await;
        for (at, node) in nodes.iter().enumerate() {
            // A busy machine may take longer to connect.
            let end = Instant::now() + Duration::from_secs(5);
            while node.ask(&format!("EXISTS lock:{name}")) != ":1" {
                assert!(Instant::now() < end, "round {round}: node {at} of 3");
                tokio::time::sleep(millis(5)).await;
            }
        }
        lease.release().await.unwrap();
        redlock.close();
    }
}
