//! Blocking calls without a tokio runtime. The client's background thread does the work that no caller waits for.

use std::thread;
use std::time::Duration;

use redlock::{Error, ErrorKind, Redlock};

use crate::support::{Server, builder, client, eventually_blocking, millis, servers};

#[test]
fn blocking_threads_exclude_each_other() {
    let server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock("job").ttl(millis(5000)).wait(millis(30_000));
    // The number of threads that hold the lock.
    let inside = std::sync::atomic::AtomicU32::new(0);
    thread::scope(|all| {
        for _ in 0..8 {
            all.spawn(|| {
                for _ in 0..50 {
                    let lease = lock.acquire_blocking().unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    lease.release_blocking().unwrap();
                }
            });
        }
    });
    assert_eq!(server.ask("DBSIZE"), ":0");
}

/// The background thread does the work that no thread waits for: renewals, notifications and deletes.
#[test]
fn background_thread_does_work_without_a_waiting_thread() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let lease = one.lock("job").ttl(millis(600)).acquire_blocking().unwrap();
    // Both threads have waited before. From now on, a thread waits only for its own work.
    eventually_blocking("renewals", || {
        assert!(two.lock("other").try_acquire_blocking().unwrap().is_some(), "dropped each time");
        one.stats().renewed >= 6
    });
    lease.ensure_held().unwrap();
    let refused = two.lock("job").wait(Duration::ZERO).acquire_blocking().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Timeout, "{refused}");
    lease.extend_blocking(millis(60_000)).unwrap();
    let other = two.clone();
    let taken = thread::spawn(move || other.lock("job").wait(millis(20_000)).acquire_blocking());
    eventually_blocking("a waiter", || two.stats().waiting == 1);
    drop(lease);
    // The TTL is longer than the wait.
    assert!(taken.join().unwrap().unwrap().is_held());
}

/// A thread of a runtime blocks as well, and its runtime with it.
#[tokio::test]
async fn blocking_calls_work_inside_a_runtime() {
    let server = Server::start();
    let redlock = builder([server.url()]).build().unwrap();
    let lease = redlock.lock("job").acquire_blocking().unwrap();
    assert!(redlock.lock("job").try_acquire().await.unwrap().is_none());
    lease.release_blocking().unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
}

#[test]
fn every_call_has_a_blocking_form() {
    let (server, three) = (Server::start(), servers(3));
    for redlock in [builder(["memory://"]).build().unwrap(), client([&server]), client(&three)] {
        let lock = redlock.lock("job").ttl(millis(20_000));
        let ours = lock.acquire_blocking().unwrap();
        let inspection = lock.inspect_blocking().unwrap();
        assert!(inspection.held && inspection.remaining > Some(millis(10_000)));
        let theirs = lock.attach_blocking(ours.token()).unwrap();
        assert!(ours.detach() && theirs.is_held());
        assert!(lock.force_release_blocking().unwrap() && !lock.force_release_blocking().unwrap());
        assert!(!lock.inspect_blocking().unwrap().held);
        assert_eq!(theirs.release_blocking().unwrap_err().kind(), ErrorKind::Lost);
        let again = lock.acquire_blocking().unwrap();
        assert!(redlock.force_release_blocking("job").unwrap());
        assert_eq!(again.release_blocking().unwrap_err().kind(), ErrorKind::Lost);
        let both = ["one", "two"].map(|name| redlock.lock(name).acquire_blocking().unwrap());
        assert_eq!(redlock.release_all_blocking().unwrap(), 2);
        assert!(
            both.iter().all(|lease| lease.ensure_held().unwrap_err().reason() == Some("revoked"))
        );
        assert_eq!(redlock.release_all_blocking().unwrap(), 0);
        assert!(redlock.ping_blocking(millis(20_000)).unwrap().ready);
        assert_eq!(redlock.shutdown_blocking(millis(20_000)).unwrap(), 0);
    }
}

/// Every blocking call whose result is an error.
fn errors(redlock: &Redlock, name: &str) -> [Error; 6] {
    let lock = redlock.lock(name);
    [
        lock.inspect_blocking().map(drop).unwrap_err(),
        lock.attach_blocking("none").map(drop).unwrap_err(),
        lock.using_blocking(|_| panic!("the lock is held")).unwrap_err(),
        lock.force_release_blocking().map(drop).unwrap_err(),
        redlock.force_release_blocking(name).map(drop).unwrap_err(),
        redlock.ping_blocking(Duration::ZERO).map(drop).unwrap_err(),
    ]
}

#[test]
fn blocking_calls_have_the_errors_of_the_awaited_ones() {
    let redlock = builder(["memory://"]).build().unwrap();
    for error in errors(&redlock, "") {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    redlock.close();
    for error in &errors(&redlock, "job")[..5] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    assert_eq!(redlock.ping_blocking(millis(20_000)).unwrap_err().kind(), ErrorKind::Closed);
    // Both have nothing left to do.
    assert_eq!(redlock.release_all_blocking().unwrap(), 0);
    assert_eq!(redlock.shutdown_blocking(Duration::ZERO).unwrap(), 0);
}

#[test]
fn using_blocking_releases_after_every_end_of_the_body() {
    let server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock("body").ttl(millis(20_000));
    let value = lock.using_blocking(|lease| {
        assert!(lease.is_held() && lock.try_acquire_blocking().unwrap().is_none());
        7
    });
    assert_eq!(value.unwrap(), 7);
    assert_eq!(server.ask("DBSIZE"), ":0");
    // A body may release its lease.
    assert!(lock.using_blocking(|lease| lease.release_blocking()).unwrap().is_ok());
    let body = || lock.using_blocking(|_| panic!("body"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    assert!(panicked.is_err());
    eventually_blocking("deleted", || server.ask("DBSIZE") == ":0");
    // A loss does not end the body, and replaces its value.
    let mut ran = false;
    let lost = lock.using_blocking(|_| {
        assert!(redlock.force_release_blocking("body").unwrap());
        ran = true;
    });
    let lost = lost.unwrap_err();
    assert_eq!((lost.kind(), lost.reason()), (ErrorKind::Lost, Some("missing")), "{lost}");
    assert!(ran);
}

#[test]
fn shutdown_blocking_waits_for_the_other_threads() {
    let server = Server::start();
    let (redlock, other) = (client([&server]), client([&server]));
    let foreign = other.lock("job").acquire_blocking().unwrap();
    thread::scope(|all| {
        let waiting = all.spawn(|| redlock.lock("job").acquire_blocking().unwrap());
        eventually_blocking("a waiter", || redlock.stats().waiting == 1);
        let down = all.spawn(|| redlock.shutdown_blocking(Duration::from_secs(600)).unwrap());
        eventually_blocking("refused", || {
            let refused = redlock.lock("new").try_acquire_blocking();
            refused.is_err_and(|error| error.kind() == ErrorKind::Closed)
        });
        foreign.release_blocking().unwrap();
        let lease = waiting.join().unwrap();
        assert!(lease.is_held() && !down.is_finished());
        lease.release_blocking().unwrap();
        assert_eq!(down.join().unwrap(), 0);
    });
    // What is held at the timeout is released.
    let lease = other.lock("job").acquire_blocking().unwrap();
    assert_eq!(other.shutdown_blocking(Duration::ZERO).unwrap(), 1);
    assert_eq!(lease.ensure_held().unwrap_err().reason(), Some("revoked"));
    assert_eq!(server.ask("DBSIZE"), ":0");
}
