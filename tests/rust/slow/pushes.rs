//! One node of three sends invalidations without a pause. That costs no lease and no memory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redlock::Redlock;

use crate::support::{Server, millis, servers};

/// A proxy in front of a server that injects additional pushes.
struct Injector {
    port: u16,
    /// The client's last connection, over which it receives notifications.
    client: Arc<Mutex<Option<Shared>>>,
}

/// Written by the server and the injector, one whole message at a time.
type Shared = Arc<Mutex<TcpStream>>;

impl Injector {
    fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, upstream) = (listener.local_addr().unwrap().port(), server.port);
        let client: Arc<Mutex<Option<Shared>>> = Arc::default();
        let current = Arc::clone(&client);
        crate::support::spawn_helper(move || {
            for mut there in listener.incoming().flatten() {
                let mut back = TcpStream::connect(("127.0.0.1", upstream)).unwrap();
                let client = Arc::new(Mutex::new(there.try_clone().unwrap()));
                *current.lock().unwrap() = Some(Arc::clone(&client));
                let mut from = back.try_clone().unwrap();
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 1 << 20];
                    while let Ok(count @ 1..) = from.read(&mut buffer) {
                        if client.lock().unwrap().write_all(&buffer[..count]).is_err() {
                            return;
                        }
                    }
                });
                std::thread::spawn(move || std::io::copy(&mut there, &mut back));
            }
        });
        Self { port, client }
    }

    fn send(&self, bytes: &[u8]) {
        let client = self.client.lock().unwrap().clone();
        if let Some(client) = client {
            let _ = client.lock().unwrap().write_all(bytes);
        }
    }
}

fn rss() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn invalidation(key: &str) -> String {
    format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len())
}

// Slow: 1,000 leases are renewed while a server sends pushes without a pause.
#[tokio::test]
async fn flood_of_invalidations_costs_no_lease_or_memory() {
    const LEASES: usize = 1000;
    let nodes = servers(3);
    let injector = Injector::to(&nodes[0]);
    let urls = [format!("redis://127.0.0.1:{}", injector.port), nodes[1].url(), nodes[2].url()];
    let redlock = Redlock::builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    let mut leases = Vec::new();
    for at in 0..LEASES {
        leases.push(redlock.lock(format!("job-{at}")).ttl(millis(10_000)).acquire().await.unwrap());
    }
    let before = rss();
    let counts = redlock.clone();
    let flood = std::thread::spawn(move || {
        injector.send(">2\r\n$10\r\ninvalidate\r\n_\r\n".repeat(300).as_bytes());
        let (begun, mut round) = (Instant::now(), 0);
        // Until each was renewed meanwhile. If all were lost, no renewal would happen.
        while counts.stats().renewed < LEASES as u64 && begun.elapsed() < Duration::from_secs(40) {
            round += 1;
            let ours = (0..LEASES).map(|at| invalidation(&format!("lock:job-{at}")));
            let foreign = (0..LEASES).map(|at| invalidation(&format!("foreign-{round}-{at}")));
            injector.send(ours.chain(foreign).collect::<String>().as_bytes());
        }
        round
    });
    for other in 0..5 {
        let lock = redlock.lock(format!("other-{other}")).wait(Duration::from_secs(5));
        lock.acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(millis(600)).await;
    }
    let rounds = tokio::task::spawn_blocking(move || flood.join().unwrap()).await.unwrap();
    let grown = rss().saturating_sub(before) >> 20;
    let lost = leases.iter().filter(|lease| !lease.is_held()).count();
    println!("{} pushes; {grown} MiB more; {lost} leases lost", rounds * 2 * LEASES);
    assert!(redlock.stats().renewed >= LEASES as u64, "renewals wait for the flood's end");
    assert_eq!(lost, 0, "of {LEASES} leases, after {rounds} rounds of pushes");
    assert!(grown < 64, "{grown} MiB");
}
