//! A client whose runtime is blocked, idle, shut down, or owned by another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::Lease;

use crate::support::runtimes::{client_of, in_task, pairs, runtimes};
use crate::support::{Server, block_on, millis, within};

/// The background thread renews leases and receives losses, whatever the runtime does.
// Slow: the runtime is blocked for three seconds.
#[test]
fn blocked_runtime_loses_no_lease_or_notification() {
    for runtime in runtimes() {
        let server = Arc::new(Server::start());
        let client = client_of(runtime.handle(), &server);
        in_task(&runtime, async move {
            let kept = client.lock("kept").ttl(millis(1000)).acquire().await.unwrap();
            let gone = client.lock("gone").ttl(millis(30_000)).acquire().await.unwrap();
            let handle = gone.handle();
            let admin = Arc::clone(&server);
            let notified = thread::spawn(move || {
                thread::sleep(millis(500));
                admin.ask("DEL lock:gone");
                let begun = Instant::now();
                while handle.is_held() && begun.elapsed() < millis(2000) {
                    thread::sleep(millis(5));
                }
                begun.elapsed()
            });
            // The request of another task that was sent just before is also completed.
            let asked = tokio::spawn(client.lock("asked").try_acquire());
            thread::sleep(millis(3000));
            kept.ensure_held().unwrap();
            let notified = notified.join().unwrap();
            assert!(notified < millis(500), "{notified:?}");
            assert_eq!(gone.lost().await.code(), "lost");
            assert!(asked.await.unwrap().unwrap().is_some());
            kept.release().await.unwrap();
            pairs(&client, "after", 20).await;
        });
    }
}

/// The requests, leases and waiters of a runtime. Another runtime continues with the same client.
// Slow: the lease is held for two TTLs after the runtime has ended.
#[test]
fn ended_runtime_loses_no_lease_or_request() {
    for runtime in runtimes() {
        let server = Server::start();
        let client = client_of(runtime.handle(), &server);
        let kept: Lease = in_task(&runtime, {
            let lock = client.lock("kept").ttl(millis(800));
            async move { lock.acquire().await.unwrap() }
        });
        let started = Arc::new(AtomicU32::new(0));
        for number in 0..32 {
            let (client, started) = (client.clone(), Arc::clone(&started));
            runtime.spawn(async move {
                loop {
                    pairs(&client, &format!("job-{}", number % 20), 1).await;
                    started.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let other = thread::spawn({
            let client = client.clone();
            move || block_on(async move { pairs(&client, "other", 500).await })
        });
        while started.load(Ordering::Relaxed) < 200 {
            runtime.block_on(async { tokio::time::sleep(millis(10)).await });
        }
        // Dropped in the middle of it.
        drop(runtime);
        within(Duration::from_secs(20), move || {
            block_on(async move {
                let names: Vec<_> = (0..20).map(|number| format!("job-{number}")).collect();
                join_all(names.iter().map(|name| pairs(&client, name, 5))).await;
                tokio::time::sleep(millis(1600)).await;
                kept.ensure_held().unwrap();
                kept.release().await.unwrap();
            });
        });
        other.join().unwrap();
        assert_eq!(server.ask("DBSIZE"), ":0");
    }
}

/// The CPU time of this thread so far.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer to the time is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

/// A closed connection does not wake the task repeatedly.
#[cfg(target_os = "linux")]
// Slow: the CPU time of a second without a server is measured.
#[test]
fn lost_connection_uses_no_cpu_time() {
    let [runtime, _] = runtimes();
    let mut server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(async {
        for _ in 0..2 {
            pairs(&client, "job", 50).await;
            let lock = client.lock("job").wait(millis(30_000));
            server.ask("SET lock:job other PX 60000");
            let waiting = tokio::spawn(lock.acquire());
            tokio::time::sleep(millis(100)).await;
            let before = cpu_time();
            server.kill();
            tokio::time::sleep(millis(1000)).await;
            let busy = cpu_time().saturating_sub(before);
            assert!(busy < millis(200), "{busy:?}");
            server.restart();
            waiting.await.unwrap().unwrap().release().await.unwrap();
        }
    });
}
