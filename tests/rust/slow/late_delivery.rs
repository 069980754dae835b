//! Bytes that arrive long after their connection is closed have no effect on any lease.

use std::io::{ErrorKind as Io, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redlock::{ErrorKind, Lock, Redlock};

use crate::support::{Mode, Proxy, Server, builder, client, eventually, millis};

/// A proxy that holds back the bytes of a client and delivers them when the client's side is closed. Bytes of new
/// connections pass.
struct HoldingProxy {
    port: u16,
    /// The connections hold from the first command of theirs that contains this word.
    until: Arc<Mutex<&'static str>>,
    lines: Arc<Mutex<Vec<Connection>>>,
    opened: Arc<AtomicUsize>,
    /// How many connections were open before the cut.
    before_cut: AtomicUsize,
}

struct Connection {
    client: TcpStream,
    holds: Arc<AtomicBool>,
}

impl HoldingProxy {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            until: Arc::default(),
            lines: Arc::default(),
            opened: Arc::default(),
            before_cut: AtomicUsize::default(),
        };
        let (lines, opened) = (Arc::clone(&proxy.lines), Arc::clone(&proxy.opened));
        let until = Arc::clone(&proxy.until);
        crate::support::spawn_helper(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let line =
                    Connection { client: client.try_clone().unwrap(), holds: Arc::default() };
                let (holds, until) = (Arc::clone(&line.holds), Arc::clone(&until));
                lines.lock().unwrap().push(line);
                opened.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || forward(client, server, &holds, &until));
                std::thread::spawn(move || {
                    let (mut from, mut to) = back;
                    let _ = std::io::copy(&mut from, &mut to);
                });
            }
        });
        proxy
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts to hold now, or at the first command with this word.
    fn hold(&self, word: &'static str) {
        *self.until.lock().unwrap() = word;
        if word.is_empty() {
            self.lines.lock().unwrap().iter().for_each(|line| line.hold(true));
        }
    }

    /// Closes the clients' sides. The bytes that they sent are still held.
    fn cut(&self) {
        self.before_cut.store(self.opened.load(Ordering::Relaxed), Ordering::Relaxed);
        for line in self.lines.lock().unwrap().iter() {
            let _ = line.client.shutdown(Shutdown::Both);
        }
    }

    fn deliver(&self) {
        *self.until.lock().unwrap() = "";
        self.lines.lock().unwrap().iter().for_each(|line| line.hold(false));
    }

    async fn reconnected(&self) {
        let end = Instant::now() + millis(10_000);
        while self.opened.load(Ordering::Relaxed) <= self.before_cut.load(Ordering::Relaxed) {
            assert!(Instant::now() < end, "no new connection");
            tokio::time::sleep(millis(10)).await;
        }
        tokio::time::sleep(millis(400)).await;
    }
}

impl Connection {
    fn hold(&self, holds: bool) {
        self.holds.store(holds, Ordering::Relaxed);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, holds: &AtomicBool, until: &Mutex<&str>) {
    from.set_read_timeout(Some(millis(5))).unwrap();
    let (mut buffer, mut held, mut open) = ([0; 4096], Vec::new(), true);
    loop {
        match if open { from.read(&mut buffer) } else { Err(Io::WouldBlock.into()) } {
            Ok(count @ 1..) => {
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                let word = *until.lock().unwrap();
                if !word.is_empty() && text.contains(word) {
                    holds.store(true, Ordering::Relaxed);
                }
                held.extend_from_slice(&buffer[..count]);
            }
            Err(error) if error.kind() == Io::WouldBlock && open => {}
            Err(error) if error.kind() == Io::WouldBlock => std::thread::sleep(millis(5)),
            _ => open = false,
        }
        let passes = !holds.load(Ordering::Relaxed);
        if passes && (to.write_all(&std::mem::take(&mut held)).is_err() || !open) {
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
}

async fn warm(redlock: &Redlock) {
    redlock.lock("warm").acquire().await.unwrap().release().await.unwrap();
}

/// Holds back a vote, which is rolled back over the next connection before it arrives.
async fn rolled_back(server: &Server, proxy: &HoldingProxy, lock: Lock) {
    proxy.hold("");
    let vote = tokio::spawn(lock.try_acquire());
    tokio::time::sleep(millis(150)).await;
    proxy.cut();
    assert_eq!(vote.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    proxy.reconnected().await;
    assert_eq!(server.ask("EXISTS lock:job"), ":0");
    proxy.deliver();
}

// Slow: bytes are held back for longer than a connection lasts.
#[tokio::test]
async fn vote_arriving_after_its_delete_is_not_granted() {
    let server = Server::start();
    let proxy = HoldingProxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    warm(&redlock).await;
    let lock = redlock.lock("job").ttl(Duration::from_secs(60));
    rolled_back(&server, &proxy, lock).await;
    tokio::time::sleep(millis(500)).await;
    assert_eq!(server.ask("EXISTS lock:job"), ":0", "given, for its whole ttl");
}

// Slow: bytes are held back for longer than a connection lasts.
#[tokio::test]
async fn deletes_late_votes_again_without_client_kill() {
    let server = Server::start();
    server.ask("ACL SETUSER default -client|kill");
    let proxy = HoldingProxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    warm(&redlock).await;
    let lock = redlock.lock("job").ttl(Duration::from_secs(60));
    rolled_back(&server, &proxy, lock).await;
    let end = Instant::now() + millis(15_000);
    tokio::time::sleep(millis(100)).await;
    while server.ask("EXISTS lock:job") != ":0" {
        assert!(Instant::now() < end, "it stays for its whole ttl");
        tokio::time::sleep(millis(50)).await;
    }
    warm(&redlock).await;
}

// Slow: bytes are held back for longer than a connection lasts.
#[tokio::test]
async fn failed_force_release_deletes_no_later_lock() {
    // The last one holds the delete, which names the owner.
    for word in ["", "EVALSHA", "first-owner"] {
        let server = Server::start();
        server.ask("ACL SETUSER default -client|kill");
        server.ask("SET lock:job first-owner");
        let proxy = HoldingProxy::to(server.port);
        let redlock = builder([proxy.url()]).build().unwrap();
        warm(&redlock).await;
        proxy.hold(word);
        let error = redlock.force_release("job").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        proxy.cut();
        proxy.reconnected().await;
        server.ask("DEL lock:job");
        let next = client([&server]).lock("job").acquire().await.unwrap();
        tokio::time::sleep(millis(1000)).await;
        proxy.deliver();
        tokio::time::sleep(millis(500)).await;
        assert_eq!(server.ask("GET lock:job"), next.token(), "deleted by what failed long ago");
        next.ensure_held().unwrap();
    }
}

// Slow: bytes are held back for longer than a connection lasts.
#[tokio::test]
async fn force_release_notifies_the_holder() {
    let server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").acquire().await.unwrap();
    assert!(redlock.force_release("job").await.unwrap());
    let lost = tokio::time::timeout(millis(2000), lease.lost()).await.expect("notified at once");
    assert_eq!(lost.reason(), Some("missing"));
}

// Slow: the server is frozen for longer than the TTL.
#[tokio::test]
async fn pending_delete_survives_a_freeze_beyond_the_ttl() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    warm(&redlock).await;
    server.signal(libc::SIGSTOP);
    let vote = tokio::spawn(redlock.lock("job").ttl(millis(5000)).try_acquire());
    tokio::time::sleep(millis(150)).await;
    // The server has the sent bytes. The delete needs another connection.
    proxy.reset();
    vote.await.unwrap().unwrap_err();
    tokio::time::sleep(millis(6500)).await;
    server.signal(libc::SIGCONT);
    tokio::time::sleep(millis(2500)).await;
    assert_eq!(server.ask("EXISTS lock:job"), ":0", "the delete is not pending any more");
}

// Slow: the lease is lost at its deadline.
#[tokio::test]
async fn lost_lease_keeps_its_key_until_it_is_released() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).connect_timeout(millis(500)).build().unwrap();
    let lease = redlock.lock("job").ttl(millis(12_000)).acquire().await.unwrap();
    proxy.set(Mode::DropReplies);
    assert_eq!(lease.lost().await.reason(), Some("expired"));
    assert_eq!(server.ask("EXISTS lock:job"), ":1", "a renewal without a reply extended the key");
    proxy.set(Mode::Pass);
    drop(lease);
    eventually("the key is deleted", || server.ask("EXISTS lock:job") == ":0").await;
    assert_eq!(server.info("stats", "expired_keys").as_deref(), Some("0"), "it was deleted");
}

/// Completes the handshake and then never replies. Returns how the connection ended.
fn handshake_then_silence(mut stream: TcpStream) -> &'static str {
    let mut buffer = [0; 8192];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return "closed",
            Err(_) => return "reset",
            Ok(count) => {
                let text = String::from_utf8_lossy(&buffer[..count]);
                let hello = usize::from(text.contains("HELLO"));
                let commands = text.lines().filter(|line| line.starts_with('*')).count();
                // The handshake tries a script too.
                let asked = text.contains("EVALSHA") && !text.contains("redlock-rights");
                let others = if asked { 0 } else { commands - hello };
                let map = "%1\r\n$5\r\nproto\r\n:3\r\n".repeat(hello);
                stream.write_all((map + &"+OK\r\n".repeat(others)).as_bytes()).unwrap();
            }
        }
    }
}

// Slow: bytes are held back for longer than a connection lasts.
#[tokio::test]
async fn resets_broken_connections_and_closes_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let ended = std::thread::spawn(move || handshake_then_silence(listener.accept().unwrap().0));
    let redlock = builder([url]).build().unwrap();
    redlock.lock("job").try_acquire().await.unwrap_err();
    let end = Instant::now() + millis(10_000);
    while !ended.is_finished() {
        assert!(Instant::now() < end, "the silent server is never left");
        tokio::time::sleep(millis(10)).await;
    }
    assert_eq!(ended.join().unwrap(), "reset");

    let server = Server::start();
    let redlock = client([&server]);
    warm(&redlock).await;
    let lease = redlock.lock("last").acquire().await.unwrap();
    drop((lease, redlock));
    let end = Instant::now() + millis(5000);
    while server.ask("EXISTS lock:last") != ":0" {
        assert!(Instant::now() < end, "the last delete was lost");
        tokio::time::sleep(millis(10)).await;
    }
}
