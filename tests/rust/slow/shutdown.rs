//! How leases and clients end: released during a hold, in order, in a hurry, immediately.

use std::time::{Duration, Instant};

use crate::support::{Proxy, Server, builder, client, millis, servers};

// Slow: the node is away for two seconds.
#[tokio::test]
async fn shutdown_waits_for_a_node_with_a_pending_delete() {
    let servers = servers(3);
    let proxy = Proxy::to(servers[2].port);
    let urls = [servers[0].url(), servers[1].url(), proxy.url()];
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    let lease = redlock.lock("job").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    while servers[2].ask("EXISTS lock:job") != ":1" {
        tokio::time::sleep(millis(10)).await;
    }
    proxy.refuse(true);
    lease.release().await.unwrap();
    tokio::time::sleep(millis(100)).await;
    let down = tokio::spawn(redlock.shutdown(Duration::from_secs(30)));
    tokio::time::sleep(millis(2500)).await;
    assert!(!down.is_finished(), "a delete is pending");
    proxy.refuse(false);
    tokio::time::timeout(millis(10_000), down).await.unwrap().unwrap().unwrap();
    assert_eq!(servers[2].ask("EXISTS lock:job"), ":0");
}

// Slow: a frozen server lets a timeout pass.
#[tokio::test]
async fn shutdown_waits_at_most_one_vote_for_a_frozen_server() {
    let server = Server::start();
    let redlock = builder([server.url()]).node_timeout(millis(2000)).build().unwrap();
    let lease = redlock.lock("job").ttl(millis(60_000)).acquire().await.unwrap();
    server.signal(libc::SIGSTOP);
    let begun = Instant::now();
    redlock.shutdown(Duration::ZERO).await.unwrap_err();
    let took = begun.elapsed();
    server.signal(libc::SIGCONT);
    assert!(took >= millis(1900), "the server was not asked: {took:?}");
    assert!(took < millis(3500), "{took:?}");
    drop(lease);
}

/// Otherwise each client would check because the other one wrote, and its check would write again.
// Slow: commands are counted for a second.
#[tokio::test]
async fn two_clients_with_one_token_cause_no_check_loop() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let first = one.lock("job").ttl(millis(30_000)).acquire().await.unwrap();
    let second = two.lock("job").ttl(millis(30_000)).attach(first.token()).await.unwrap();
    let commands = || -> u32 {
        server.info("stats", "total_commands_processed").unwrap().trim().parse().unwrap()
    };
    let before = commands();
    tokio::time::sleep(millis(1000)).await;
    let asked = commands() - before;
    assert!(asked < 200, "{asked} commands in a second");
    assert!(first.is_held() && second.is_held());
}
