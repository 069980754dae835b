//! Managed servers and proxies that lack commands or close connections. Each lack is reported at connect or has a
//! substitute.

use redlock::Redlock;

use crate::support::{Proxy, Server, client, millis};

// Slow: the lease is held for three times its TTL, over two connections.
#[tokio::test]
async fn keeps_leases_without_client_info_and_ping() {
    let hidden = ["CLIENT", "INFO", "PING", "GETRANGE", "MGET", "EXISTS", "HELLO"];
    let renamed: Vec<&str> =
        hidden.iter().flat_map(|name| ["--rename-command", name, ""]).collect();
    let server = Server::with(&renamed);
    let proxy = Proxy::to(server.port);
    let redlock = Redlock::builder([proxy.url()]).build().unwrap();
    let lease = redlock.lock("job").ttl(millis(1000)).acquire().await.unwrap();
    let waiting = tokio::spawn(redlock.lock("job").wait(millis(10_000)).acquire());
    // It is renewed, and over the next connection too.
    tokio::time::sleep(millis(1500)).await;
    proxy.reset();
    tokio::time::sleep(millis(1500)).await;
    lease.ensure_held().unwrap();
    lease.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let several = redlock.lock(["a", "b"]).acquire().await.unwrap();
    several.release().await.unwrap();
}

// Slow: the server cuts connections that are idle for a second.
#[tokio::test]
async fn closing_idle_connections_costs_no_lease() {
    let server = Server::with(&["--timeout", "1"]);
    let redlock = client([&server]);
    let lock = redlock.lock("job").ttl(millis(30_000));
    let lease = lock.acquire().await.unwrap();
    for _ in 0..3 {
        tokio::time::sleep(millis(2500)).await;
        lease.ensure_held().unwrap();
        assert_eq!(server.ask("GET lock:job"), lease.token());
        // No other client acquires it either.
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    lease.release().await.unwrap();
    assert_eq!(server.ask("EXISTS lock:job"), ":0");
    lock.acquire().await.unwrap().release().await.unwrap();
}

// Slow: the server cuts connections that are idle for 6 seconds.
#[tokio::test]
async fn use_of_the_first_connection_keeps_the_second() {
    let server = Server::with(&["--timeout", "6"]);
    let redlock = client([&server]);
    for _ in 0..4 {
        redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(millis(4000)).await;
    }
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(redlock.stats().reconnects, 0);
}
