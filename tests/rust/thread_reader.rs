//! A thread that reads its own replies learns of every change to its connection.

use std::thread;

use redlock::Redlock;

use crate::support::{Server, builder};

/// Runs enough acquire and release pairs, one after the other, that this thread reads its own replies.
fn warm(client: &Redlock) {
    for _ in 0..50 {
        client.lock("warm").acquire_blocking().unwrap().release_blocking().unwrap();
    }
}

/// A client whose thread has read its own replies.
fn reading_client(url: String) -> Redlock {
    let client = builder([url]).build().unwrap();
    warm(&client);
    client
}

#[test]
fn waits_for_a_slow_server() {
    let server = Server::start();
    let client = reading_client(server.url());
    for pause in [5, 40, 120, 300] {
        assert_eq!(server.ask(&format!("CLIENT PAUSE {pause} ALL")), "+OK");
        let lease = client.lock("slow").acquire_blocking().unwrap();
        lease.release_blocking().unwrap();
    }
    assert_eq!(server.ask("EXISTS lock:slow"), ":0");
}

/// Many replies arrive at once, for many threads.
#[test]
fn reads_many_replies_at_once_in_order() {
    let server = Server::start();
    let client = reading_client(server.url());
    assert_eq!(server.ask("CLIENT PAUSE 30 ALL"), "+OK");
    let leases: Vec<_> = (0..200)
        .map(|which| {
            let lock = client.lock(format!("many-{which}"));
            thread::spawn(move || lock.acquire_blocking().unwrap())
        })
        .collect();
    let leases: Vec<_> = leases.into_iter().map(|each| each.join().unwrap()).collect();
    assert_eq!(server.ask("DBSIZE"), ":200");
    for lease in &leases {
        lease.ensure_held().unwrap();
    }
    drop(leases);
    warm(&client);
    assert_eq!(server.ask("DBSIZE"), ":0");
}
