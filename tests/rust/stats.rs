//! The statistics of a client.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redlock::testing::{Clock, Instant, Sleep, SystemClock};
use redlock::{LossReason, Redlock, Stats};

use crate::support::{Server, client, free_port, millis};

fn lost(stats: &Stats, reason: LossReason) -> u64 {
    stats.lost.iter().find(|(each, _)| *each == reason).unwrap().1
}

#[tokio::test]
async fn loss_is_counted_before_it_is_visible() {
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    for round in 1..=1_000 {
        let lease = redlock.lock("job").acquire().await.unwrap();
        let (handle, reader) = (lease.handle(), redlock.clone());
        let watcher = std::thread::spawn(move || {
            while handle.is_held() {
                std::hint::spin_loop();
            }
            lost(&reader.stats(), LossReason::Revoked)
        });
        redlock.release_all().await.unwrap();
        assert_eq!(watcher.join().unwrap(), round);
    }
}

#[tokio::test]
async fn counts_reconnects_and_unavailable_nodes() {
    let server = Server::start();
    let redlock = client([&server]);
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(redlock.stats().reconnects, 0);
    server.ask("CLIENT KILL TYPE normal SKIPME yes");
    // The next command opens a connection. It fails if it was sent over the old one.
    while redlock.stats().reconnects == 0 {
        let _ = redlock.lock("job").inspect().await;
    }
    redlock.close();
    assert!(redlock.stats().reconnects > 0);
    let closed_port = format!("redis://127.0.0.1:{}", free_port());
    let away = Redlock::builder([closed_port]).build().unwrap();
    away.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    away.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((away.stats().unavailable, away.stats().timed_out), (2, 0));
}

/// The machine's clock, which panics once after this many reads.
#[derive(Clone, Default)]
struct PanickingClock(Arc<AtomicI64>);

impl Clock for PanickingClock {
    fn now(&self) -> Instant {
        assert!(self.0.fetch_sub(1, Ordering::SeqCst) != 1, "the clock");
        SystemClock.now()
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(at)
    }
}

#[tokio::test]
async fn panicking_clock_does_not_prevent_a_loss_notification() {
    for turn in 1..8 {
        let clock = PanickingClock::default();
        let client =
            Redlock::builder(["memory://"]).clock(Arc::new(clock.clone())).build().unwrap();
        let lease = client.lock("job").renew(false).ttl(millis(60_000)).acquire().await.unwrap();
        let notified = tokio::spawn(lease.lost());
        tokio::task::yield_now().await; // waiting now
        clock.0.store(turn, Ordering::SeqCst);
        let _ = catch_unwind(AssertUnwindSafe(|| client.close()));
        clock.0.store(0, Ordering::SeqCst);
        if !lease.is_held() {
            let notified = tokio::time::timeout(Duration::from_secs(10), notified).await;
            notified.unwrap_or_else(|_| panic!("no notification after turn {turn}")).unwrap();
        }
    }
}
