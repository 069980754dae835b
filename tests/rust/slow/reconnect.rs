//! Servers that return, and servers that are replaced by others.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redlock::ErrorKind;

use crate::support::{Mode, Proxy, Server, Silent, builder, client, eventually, millis, servers};

// Slow: the client waits for seconds while a server is down.
#[tokio::test]
async fn idle_client_finds_a_returned_server_at_once() {
    let mut server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock("job");
    lock.acquire().await.unwrap().release().await.unwrap();
    for idle in [1900, 2150, 2400, 2650] {
        server.kill();
        tokio::time::sleep(millis(50)).await;
        assert_eq!(lock.try_acquire().await.unwrap_err().kind(), ErrorKind::Unavailable);
        // Long enough for the pauses between attempts to reach their maximum.
        tokio::time::sleep(millis(idle)).await;
        server.restart();
        let lease = lock.try_acquire().await.expect("an old refusal").unwrap();
        lease.release().await.unwrap();
    }
}

// Slow: an upper bound on a duration is the subject.
#[tokio::test]
async fn call_during_a_hung_connect_starts_another() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    let lock = redlock.lock("job");
    // Because of the lease, the client connects again without a call.
    let held = redlock.lock("held").ttl(millis(60_000)).acquire().await.unwrap();
    // The connection is lost. The automatic next attempt gets no reply for two seconds.
    proxy.set(Mode::Blackhole);
    proxy.reset();
    let begun = proxy.connections.load(Ordering::Relaxed);
    while proxy.connections.load(Ordering::Relaxed) == begun {
        tokio::time::sleep(millis(1)).await;
    }
    tokio::time::sleep(millis(300)).await;
    proxy.set(Mode::Pass);
    let started = Instant::now();
    let lease = lock.try_acquire().await.expect("it waited for the one that hangs").unwrap();
    assert!(started.elapsed() < millis(900), "{:?}", started.elapsed());
    lease.release().await.unwrap();
    held.release().await.unwrap();
}

// Slow: the client waits for seconds while a server is down.
#[tokio::test]
async fn known_dead_node_fails_at_once() {
    let mut nodes = servers(2);
    let silent = Silent::listen();
    let urls = [silent.url(), nodes[0].url(), nodes[1].url()];
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    redlock.lock("warm").acquire().await.unwrap().release().await.unwrap();
    nodes[0].kill();
    tokio::time::sleep(millis(2500)).await;
    // Two of three nodes are down, and one of them does not even refuse. A caller that tries often does not wait for
    // it.
    let (mut slow, tries) = (0, 200);
    for at in 0..tries {
        let started = Instant::now();
        redlock.lock(format!("job-{at}")).try_acquire().await.unwrap_err();
        slow += usize::from(started.elapsed() > millis(300));
        tokio::time::sleep(millis(10)).await;
    }
    assert!(slow < tries / 10, "{slow} of {tries} waited");
}

// Slow: the servers must be older than the restart guard.
#[tokio::test]
async fn different_server_at_a_known_url_starts_a_new_guard() {
    starts_a_new_guard(Mode::Pass).await;
}

// Slow: the servers must be older than the restart guard.
#[tokio::test]
async fn possibly_different_server_starts_a_new_guard() {
    starts_a_new_guard(Mode::Nameless).await;
}

async fn starts_a_new_guard(mode: Mode) {
    let (nodes, others) = (servers(3), servers(2));
    let proxies: Vec<_> = nodes.iter().map(|node| Proxy::to(node.port)).collect();
    proxies.iter().for_each(|proxy| proxy.set(mode));
    let guard = millis(3000);
    let urls = proxies.iter().map(Proxy::url);
    let redlock = builder(urls).restart_guard(guard).build().unwrap();
    tokio::time::sleep(millis(5100)).await; // all are old enough
    let lock = redlock.lock("job").ttl(millis(2000));
    // On a busy machine, the first connections may take longer than the timeout of one vote.
    lock.acquire().await.unwrap().release().await.unwrap();
    // Two of three are enough for that. A server without an earlier connection cannot be recognized as a different one.
    while lock.inspect().await.unwrap().nodes.iter().any(|node| node.error.is_some()) {
        tokio::time::sleep(millis(10)).await;
    }
    let switched = Instant::now();
    for (proxy, other) in proxies.iter().zip(&others) {
        proxy.redirect_to(other.port);
    }
    // Another connection to the same server keeps the state.
    tokio::time::sleep(millis(500)).await;
    proxies.iter().for_each(Proxy::reset);
    // During a reconnect they count as failed for that reason. The guard is the reason that keeps them out.
    let (end, mut seen) = (Instant::now() + millis(15_000), false);
    loop {
        match lock.try_acquire().await {
            Ok(Some(_)) => break,
            Ok(None) => {}
            Err(error) => seen |= error.to_string().contains("grants new leases in"),
        }
        assert!(Instant::now() < end, "it never votes again");
        tokio::time::sleep(millis(50)).await;
    }
    assert!(seen, "no error named the restart guard");
    assert!(switched.elapsed() >= guard, "{:?}", switched.elapsed());
}

// Slow: the client waits for seconds while a server is down.
#[tokio::test]
async fn unreadable_uptime_is_read_again() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    proxy.set(Mode::Ageless);
    let redlock = builder([proxy.url()]).restart_guard(millis(500)).build().unwrap();
    let lock = redlock.lock("job").ttl(millis(500));
    let error = lock.try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("uptime cannot be read"), "{error}");
    proxy.set(Mode::Pass);
    let end = Instant::now() + millis(15_000);
    while lock.try_acquire().await.map_or(true, |lease| lease.is_none()) {
        assert!(Instant::now() < end, "it never votes");
        tokio::time::sleep(millis(50)).await;
    }
    // A second connection showed that a new one would vote.
    assert_eq!(redlock.stats().reconnects, 1);
}

/// A client whose connections a load balancer cuts, and the number of connections that it has opened.
struct Cut {
    server: Server,
    proxy: Proxy,
    redlock: redlock::Redlock,
}

impl Cut {
    async fn start() -> Self {
        let server = Server::start();
        let proxy = Proxy::to(server.port);
        let redlock = builder([proxy.url()]).build().unwrap();
        redlock.lock("first").acquire().await.unwrap().release().await.unwrap();
        eventually("the second connection", || server.redirects()).await;
        // The connection has worked.
        tokio::time::sleep(millis(1100)).await;
        Self { server, proxy, redlock }
    }

    fn connections(&self) -> usize {
        self.proxy.connections.load(Ordering::Relaxed)
    }
}

// Slow: an idle client sends nothing for seconds.
#[tokio::test]
async fn idle_client_opens_no_connection_after_a_cut() {
    let cut = Cut::start().await;
    for _ in 0..3 {
        let before = cut.connections();
        cut.proxy.reset();
        tokio::time::sleep(millis(1500)).await;
        assert_eq!(cut.connections(), before, "nothing needs a connection");
        // The next command opens one, and waits for it.
        cut.redlock.lock("job").try_acquire().await.unwrap().unwrap().release().await.unwrap();
        tokio::time::sleep(millis(1100)).await;
        assert_eq!(cut.connections(), before + 2);
    }
    // Nor does the end of the client open one.
    cut.proxy.reset();
    let before = cut.connections();
    tokio::time::sleep(millis(100)).await;
    cut.redlock.shutdown(millis(1000)).await.unwrap();
    assert_eq!(cut.connections(), before);
}

// Slow: the connections must last for a second to have worked.
#[tokio::test]
async fn leases_and_waiting_callers_open_a_connection_after_a_cut() {
    let cut = Cut::start().await;
    let other = builder([cut.server.url()]).build().unwrap();
    // A lease that is not renewed is notified of its loss.
    let hour = Duration::from_secs(3600);
    let lease = cut.redlock.lock("job").ttl(hour).renew(false).acquire().await.unwrap();
    cut.proxy.reset();
    eventually("a connection", || cut.redlock.stats().reconnects == 1).await;
    assert!(other.force_release("job").await.unwrap());
    lease.lost().await;
    drop(lease);
    // A caller that waits for a lock is woken by its release.
    let held = other.lock("job").ttl(hour).acquire().await.unwrap();
    let waiting = tokio::spawn(cut.redlock.lock("job").wait(hour).acquire());
    eventually("a waiter", || cut.redlock.stats().waiting == 1).await;
    tokio::time::sleep(millis(1100)).await;
    cut.proxy.reset();
    eventually("a connection", || cut.redlock.stats().reconnects == 2).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

// Slow: the connections must last for a second to have worked.
#[tokio::test]
async fn pending_delete_opens_a_connection_after_a_cut() {
    let cut = Cut::start().await;
    let lease = cut.redlock.lock("job").ttl(millis(60_000)).acquire().await.unwrap();
    tokio::time::sleep(millis(1100)).await;
    cut.proxy.set(Mode::Blackhole);
    let released = tokio::spawn(lease.release());
    tokio::time::sleep(millis(100)).await;
    cut.proxy.set(Mode::Pass);
    cut.proxy.reset();
    released.await.unwrap().unwrap_err();
    eventually("the delete", || cut.server.ask("EXISTS lock:job") == ":0").await;
}
