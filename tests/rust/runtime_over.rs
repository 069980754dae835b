//! A client that was told of its runtime, once that is blocked, idle, over, or another process's.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::{ErrorKind, Lease};
use tokio::runtime::{Builder, Handle};

use crate::runtime::{client_of, empties, in_task, pairs, runtimes};
use crate::support::{Server, block_on, builder, millis, within};

#[test]
fn a_runtime_that_cannot_read_is_refused() {
    let server = Server::start();
    let refused = |handle: &Handle| {
        let refused = builder([server.url()]).runtime(handle.clone()).build().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        refused.to_string()
    };
    let without = Builder::new_current_thread().enable_time().build().unwrap();
    let ended = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = ended.handle().clone();
    drop(ended);
    if cfg!(target_os = "linux") {
        assert!(refused(without.handle()).contains("enable_io"));
        assert!(refused(&handle).contains("has ended"));
    }
}

/// The background thread renews, and is told of losses, whatever the runtime does.
#[test]
fn a_runtime_that_is_blocked_loses_no_lease_and_no_word_of_a_loss() {
    for runtime in runtimes() {
        let server = Arc::new(Server::start());
        let client = client_of(runtime.handle(), &server);
        in_task(&runtime, async move {
            let kept = client.lock("kept").ttl(millis(1000)).acquire().await.unwrap();
            let gone = client.lock("gone").ttl(millis(30_000)).acquire().await.unwrap();
            let handle = gone.handle();
            let admin = Arc::clone(&server);
            let told = thread::spawn(move || {
                thread::sleep(millis(500));
                admin.ask("DEL lock:gone");
                let begun = Instant::now();
                while handle.held() && begun.elapsed() < millis(2000) {
                    thread::sleep(millis(5));
                }
                begun.elapsed()
            });
            // Another task's, too, which asks just before.
            let asked = tokio::spawn(client.lock("asked").try_acquire());
            thread::sleep(millis(3000));
            kept.ensure_held().unwrap();
            let told = told.join().unwrap();
            assert!(told < millis(500), "{told:?}");
            assert_eq!(gone.lost().await.code(), "lost");
            assert!(asked.await.unwrap().unwrap().is_some());
            kept.release().await.unwrap();
            pairs(&client, "after", 20).await;
        });
    }
}

/// What was asked in it, its leases and its waiters: another runtime goes on with the same client.
#[test]
fn a_runtime_that_ends_takes_nothing_along() {
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
        // In the midst of it.
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

/// Nobody runs it any more, or for now: what was asked last goes out all the same.
#[test]
fn what_is_dropped_last_in_a_runtime_is_released() {
    for runtime in runtimes() {
        let server = Server::start();
        let client = client_of(runtime.handle(), &server);
        for count in [1, 8] {
            runtime.block_on(async {
                pairs(&client, "warm", 20).await;
                let locks = (0..count).map(|number| client.lock(format!("job-{number}")));
                let leases = join_all(locks.map(|lock| lock.acquire())).await;
                assert_eq!(server.ask("DBSIZE"), format!(":{count}"));
                drop(leases);
            });
            empties(&server);
        }
    }
}

/// The time that this thread has worked so far.
#[cfg(target_os = "linux")]
fn worked() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

/// A connection that ends is nothing to look at again and again.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_goes_and_comes_back_keeps_nobody_busy() {
    let [runtime, _] = runtimes();
    let mut server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(async {
        for _ in 0..2 {
            pairs(&client, "job", 50).await;
            let lock = client.lock("job").wait(millis(30_000));
            server.ask("SET lock:job somebody PX 60000");
            let waiting = tokio::spawn(lock.acquire());
            tokio::time::sleep(millis(100)).await;
            let before = worked();
            server.kill();
            tokio::time::sleep(millis(1000)).await;
            let busy = worked().saturating_sub(before);
            assert!(busy < millis(200), "{busy:?}");
            server.restart();
            waiting.await.unwrap().unwrap().release().await.unwrap();
        }
    });
}

/// Wakes a thread that parks.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// By no runtime at all.
fn parked<T>(work: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Its threads say that they are the runtime's, and nobody runs that.
#[test]
fn where_the_runtime_is_not_run_the_background_thread_reads() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(pairs(&client, "warm", 50));
    within(Duration::from_secs(10), move || {
        let _inside = runtime.enter();
        parked(pairs(&client, "job", 3));
    });
}

/// It is the parent's runtime, and the parent goes on with it.
#[cfg(unix)]
#[test]
fn a_forked_child_leaves_the_runtime_alone() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(async {
        let lease = client.lock("held").ttl(millis(1000)).acquire().await.unwrap();
        pairs(&client, "warm", 50).await;
        // SAFETY: the child does nothing but what is tested, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let asked = parked(client.lock("child").acquire()).and_then(Lease::release_blocking);
            let well = asked.is_ok() && !lease.held();
            drop(client.clone());
            // SAFETY: nothing of the parent's is ended.
            unsafe { libc::_exit(i32::from(!well)) };
        }
        let mut status = 0;
        // SAFETY: there is room for the status.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            pairs(&client, "parent", 1).await;
        }
        assert_eq!(status, 0);
        let begun = Instant::now();
        pairs(&client, "parent", 100).await;
        // A quarter of a second each, if nobody but the background thread's rhythm looked.
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        lease.ensure_held().unwrap();
        lease.release().await.unwrap();
    });
    assert_eq!(server.ask("DBSIZE"), ":0");
}
