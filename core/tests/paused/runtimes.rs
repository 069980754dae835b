//! `TestClock::tokio` and runtimes that end, are not run, or have no timers.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};
use redlock::{ErrorKind, Lease, LossReason, Redlock};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::{NEAR, SECOND, paused};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn unpaused() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Waits until the lease is renewed once more by the machine's clock.
fn wait_renewed(redlock: &Redlock, lease: &Lease) {
    let before = redlock.stats().renewed;
    while redlock.stats().renewed == before {
        assert!(lease.is_held(), "{:?}", lease.lost_reason());
        thread::sleep(NEAR);
    }
}

#[test]
fn client_outlives_its_runtime() {
    let ended = runtime();
    let (redlock, lease) = ended.block_on(async {
        let redlock = paused();
        let lease = redlock.lock("job").ttl(9 * SECOND).acquire().await.unwrap();
        sleep(60 * SECOND).await;
        (redlock, lease)
    });
    drop(ended);
    assert!(lease.is_held());
    // From now on, the background thread waits, renews and reports losses by the machine's clock.
    let lock = redlock.lock("job").wait(SECOND / 4);
    assert_eq!(lock.acquire_blocking().unwrap_err().kind(), ErrorKind::Timeout);
    wait_renewed(&redlock, &lease);
    assert!(lease.is_held());
    lease.release_blocking().unwrap();
    let left = redlock.lock("left").ttl(SECOND / 4).renew(false).acquire_blocking().unwrap();
    assert_eq!(unpaused().block_on(left.lost()).loss_reason(), Some(LossReason::Expired));
}

#[test]
fn unpaused_runtime_uses_machine_time() {
    unpaused().block_on(async {
        let redlock = paused();
        let lease = redlock.lock("job").ttl(9 * SECOND).acquire().await.unwrap();
        let left = redlock.lock("left").ttl(SECOND / 4).renew(false).acquire().await.unwrap();
        assert_eq!(left.lost().await.loss_reason(), Some(LossReason::Expired));
        while redlock.stats().renewed == 0 {
            sleep(NEAR).await;
        }
        assert!(lease.is_held() && redlock.hold("left").await.unwrap().is_held());
    });
}

#[test]
fn endless_advance_expires_leases() {
    let ended = runtime();
    let (clock, lease) = ended.block_on(async {
        let clock = TestClock::tokio().unwrap();
        let redlock = TestRedlock::with_clock(&clock).unwrap();
        let lease = redlock.lock("job").acquire().await.unwrap();
        sleep(SECOND).await;
        redlock.advance(Duration::MAX).await;
        assert!(!lease.is_held());
        (clock, lease)
    });
    assert_eq!(clock.elapsed(), Duration::MAX);
    clock.jump(SECOND);
    drop(ended);
    assert!(clock.elapsed() == Duration::MAX && !lease.is_held());
}

#[test]
fn refuses_runtime_without_timers() {
    let none = Builder::new_current_thread().build().unwrap();
    let error = none.block_on(async { TestClock::tokio().unwrap_err() });
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("enable_time"), "{error}");
}

#[test]
fn error_outside_a_runtime_suggests_start_paused() {
    let error = TestClock::tokio().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("start_paused"), "{error}");
}

/// The state of a thread, which it sends when it ends.
struct ThreadState {
    runtime: Option<Runtime>,
    kept: Option<(TestRedlock, Lease)>,
    sender: Sender<(TestRedlock, Lease, bool, ErrorKind)>,
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let (redlock, lease) = self.kept.take().unwrap();
        let held = lease.is_held();
        drop(self.runtime.take());
        let error = redlock.lock("job").wait(NEAR).acquire_blocking().unwrap_err();
        self.sender.send((redlock, lease, held, error.kind())).unwrap();
    }
}

#[test]
fn client_outlives_a_runtime_in_a_thread_local() {
    thread_local!(static LOCAL: RefCell<Option<ThreadState>> = const { RefCell::new(None) });
    let (sender, receiver) = channel();
    let ends = thread::spawn(move || {
        // This value is used before tokio's thread locals, so it is dropped after them.
        LOCAL.with_borrow_mut(|local| assert!(local.is_none()));
        let runtime = runtime();
        let kept = runtime.block_on(async {
            let redlock = paused();
            let lease = redlock.lock("job").ttl(9 * SECOND).acquire().await.unwrap();
            sleep(60 * SECOND).await;
            (redlock, lease)
        });
        LOCAL.set(Some(ThreadState { runtime: Some(runtime), kept: Some(kept), sender }));
    });
    ends.join().unwrap();
    let (redlock, lease, held, kind) = receiver.recv().unwrap();
    assert!(held && kind == ErrorKind::Timeout);
    wait_renewed(&redlock, &lease);
    assert!(lease.is_held());
    lease.release_blocking().unwrap();
}

#[test]
fn wait_times_out_if_unpaused_runtime_is_not_run() {
    let idle = unpaused();
    let (redlock, lease) = idle.block_on(async {
        let redlock = paused();
        let lease = redlock.lock("job").acquire().await.unwrap();
        (redlock, lease)
    });
    let lock = redlock.lock("job").wait(SECOND / 4);
    assert_eq!(lock.acquire_blocking().unwrap_err().kind(), ErrorKind::Timeout);
    let error = unpaused().block_on(lock.acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    drop((lease, idle));
}

#[test]
fn lose_and_advance_return_if_runtime_is_not_run() {
    let idle = runtime();
    let (redlock, lease) = idle.block_on(async {
        let redlock = paused();
        let lease = redlock.lock("job").acquire().await.unwrap();
        (redlock, lease)
    });
    unpaused().block_on(async {
        assert!(redlock.lose("job").await.unwrap());
        redlock.advance(60 * SECOND).await;
    });
    assert!(!lease.is_held());
}
