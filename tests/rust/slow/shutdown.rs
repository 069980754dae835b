//! How leases and clients end: released during a hold, in order, in a hurry, immediately.

use std::time::Duration;

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
