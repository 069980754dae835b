//! A client whose runtime is blocked, idle, shut down, or owned by another process.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_util::future::join_all;
use redlock::{ErrorKind, Lease};
use tokio::runtime::{Builder, Handle};

use crate::support::runtimes::{client_of, pairs, runtimes, wait_empty};
use crate::support::{Server, builder, millis, within};

#[test]
fn refuses_a_runtime_without_io() {
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
        assert!(refused(&handle).contains("has shut down"));
    }
}

/// No thread runs the runtime any more, or for now. The last command is sent nevertheless.
#[test]
fn lease_dropped_last_in_a_runtime_is_released() {
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
            wait_empty(&server);
        }
    }
}

/// Wakes a parked thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs the work without a runtime.
fn block_on_thread<T>(work: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Its threads belong to the runtime, but none of them runs it.
#[test]
fn background_thread_reads_if_the_runtime_is_not_run() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(pairs(&client, "warm", 50));
    within(Duration::from_secs(10), move || {
        let _inside = runtime.enter();
        block_on_thread(pairs(&client, "job", 10));
        block_on_thread(pairs(&client_of(runtime.handle(), &server), "cold", 10));
    });
}

/// The mutexes of the acquire may be locked in the child, by threads that do not exist there.
#[cfg(unix)]
#[test]
fn forked_child_does_not_continue_an_acquire_of_its_parent() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(async {
        let lease = client.lock("job").acquire().await.unwrap();
        let mut waiting = Box::pin(client.lock("job").acquire());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        // SAFETY: the child runs only the tested code and exits immediately.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let refused =
                matches!(&polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Lost);
            // SAFETY: it ends no state of the parent.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = 0;
        // SAFETY: the pointer to the status is valid.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        lease.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
    });
}

/// The runtime belongs to the parent process, which continues to use it.
#[cfg(unix)]
#[test]
fn forked_child_does_not_use_the_runtime() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(async {
        let lease = client.lock("held").ttl(millis(1000)).acquire().await.unwrap();
        pairs(&client, "warm", 50).await;
        // SAFETY: the child runs only the tested code and exits immediately.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let asked =
                block_on_thread(client.lock("child").acquire()).and_then(Lease::release_blocking);
            let well = asked.is_ok() && !lease.is_held();
            drop(client.clone());
            // SAFETY: it ends no state of the parent.
            unsafe { libc::_exit(i32::from(!well)) };
        }
        let mut status = 0;
        // SAFETY: the pointer to the status is valid.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            pairs(&client, "parent", 1).await;
        }
        assert_eq!(status, 0);
        // Each pair takes a quarter of a second if only the background thread's timer reads.
        let many = tokio::time::timeout(Duration::from_secs(20), pairs(&client, "parent", 100));
        many.await.expect("the runtime reads");
        lease.ensure_held().unwrap();
        lease.release().await.unwrap();
    });
    assert_eq!(server.ask("DBSIZE"), ":0");
}
