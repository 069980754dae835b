//! `TestClock::tokio` and runtimes that are not paused, or have no timers.

use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};
use redlock::{ErrorKind, LossReason};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::{NEAR, SECOND, paused};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn unpaused() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
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
    runtime().block_on(async {
        let clock = TestClock::tokio().unwrap();
        let redlock = TestRedlock::with_clock(&clock).unwrap();
        let lease = redlock.lock("job").acquire().await.unwrap();
        sleep(SECOND).await;
        redlock.advance(Duration::MAX).await;
        assert!(!lease.is_held());
        assert_eq!(clock.elapsed(), Duration::MAX);
        clock.jump(SECOND);
        assert!(clock.elapsed() == Duration::MAX && !lease.is_held());
    });
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
