//! A thread that reads its own replies learns of every change to its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlock::{ErrorKind, Redlock};

use crate::support::{Mode, Proxy, Server, builder, millis, within};

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

// Slow: an upper bound on a duration is the subject.
#[test]
fn reports_a_reset_connection_at_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let client = reading_client(proxy.url());
    for _ in 0..5 {
        proxy.set(Mode::Blackhole);
        let waiting = {
            let client = client.clone();
            let began = Instant::now();
            let lock = client.lock("cut").ttl(millis(20_000)).wait(Duration::ZERO);
            thread::spawn(move || (lock.acquire_blocking().map(drop), began.elapsed()))
        };
        thread::sleep(millis(15));
        proxy.reset();
        let (outcome, took) = within(millis(10_000), move || waiting.join().unwrap());
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(took < millis(900), "{took:?}: not before the silence was noticed");
        proxy.set(Mode::Pass);
        warm(&client);
    }
    assert_eq!(server.ask("EXISTS lock:cut"), ":0");
}

// Slow: an upper bound on a duration is the subject.
#[test]
fn close_ends_a_blocking_wait_at_once() {
    let server = Server::start();
    let client = reading_client(server.url());
    assert_eq!(server.ask("CLIENT PAUSE 3000 ALL"), "+OK");
    let lock = client.lock("closed");
    let waiting = thread::spawn(move || lock.acquire_blocking().map(drop));
    thread::sleep(millis(10));
    client.close();
    let began = Instant::now();
    let outcome = within(millis(10_000), move || waiting.join().unwrap());
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Closed);
    assert!(began.elapsed() < millis(1500), "{:?}: before the server answered", began.elapsed());
}

/// The second thread comes while the first one waits, and the third while both wait.
// Slow: threads start milliseconds apart while the server pauses.
#[test]
fn concurrent_threads_get_their_replies() {
    let server = Server::start();
    let client = reading_client(server.url());
    for round in 0..20 {
        warm(&client);
        assert_eq!(server.ask("CLIENT PAUSE 10 ALL"), "+OK");
        let waiting = (0..3).map(|which| {
            thread::sleep(millis(2));
            let lock = client.lock(format!("met-{round}-{which}"));
            thread::spawn(move || lock.acquire_blocking().unwrap().release_blocking().unwrap())
        });
        let waiting: Vec<_> = waiting.collect();
        within(millis(10_000), move || waiting.into_iter().for_each(|each| each.join().unwrap()));
    }
    assert_eq!(server.ask("DBSIZE"), ":0");
}

/// The connection task reads what this thread leaves, just when this thread waits again.
// Slow: 20,000 pairs race with another thread.
#[test]
fn thread_and_connection_task_lose_no_reply() {
    let server = Server::start();
    let client = reading_client(server.url());
    let other = client.lock("other").ttl(millis(60_000)).acquire_blocking().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let going = Arc::clone(&over);
    let aside = thread::spawn(move || {
        while !going.load(Ordering::SeqCst) {
            // Sent without waiting for the reply.
            drop(other.extend(millis(60_000)));
            thread::sleep(Duration::from_micros(100));
        }
    });
    within(millis(60_000), move || {
        for _ in 0..20_000 {
            let lease = client.lock("left").wait(millis(5000)).acquire_blocking().unwrap();
            lease.release_blocking().unwrap();
        }
    });
    over.store(true, Ordering::SeqCst);
    aside.join().unwrap();
}
