//! Blocking calls without a tokio runtime. The client's background thread does the work that no caller waits for.

use std::thread;
use std::time::Duration;

use redlock::ErrorKind;

use crate::support::{Server, builder, client, eventually_blocking, millis};

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
