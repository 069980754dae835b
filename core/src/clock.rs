//! Monotonic time that also counts while the machine is suspended.
//!
//! The lifetime of a lease never depends on a wall clock. A step forward would end every lease, and a step back would
//! extend it beyond its end. A client may use another [`Clock`], as the simulation does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::runtime::machine;
pub use crate::runtime::machine::Instant;
pub(crate) use crate::runtime::machine::NEVER;

/// A future that completes at a given instant.
///
/// It can be awaited on any runtime and dropped at any time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A random time between half of this one and all of it.
///
/// Clients that act at the same time do not act together again. Never less than half, because after a delay near zero
/// they would.
pub(crate) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// The source of every deadline of the library.
///
/// ```
/// # #[cfg(feature = "testing")] #[tokio::main(flavor = "current_thread")] async fn main() {
/// use redlock::testing::{Clock, Instant, SystemClock};
/// let begun = SystemClock.now();
/// SystemClock.sleep_until(begun + std::time::Duration::from_millis(5)).await;
/// assert!(SystemClock.now().since(begun).as_millis() >= 5 && SystemClock.wall_micros() > 0);
/// assert_eq!(Instant::from_start(std::time::Duration::from_secs(1)).as_nanos(), 1_000_000_000);
/// # }
/// # #[cfg(not(feature = "testing"))] fn main() {}
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    ///
    /// It never goes back, and it counts while the machine is suspended, because the servers also do.
    fn now(&self) -> Instant;

    /// Microseconds since 1970 by the wall clock.
    ///
    /// It may step. It is only used to propose a fencing token.
    fn wall_micros(&self) -> u64;

    /// Waits until `at`, also if the machine is suspended in the meantime.
    ///
    /// The future may complete late, but never early. Callers compare `now` with their deadline when it completes.
    fn sleep_until(&self, at: Instant) -> Sleep;
}

/// The clock of the operating system.
///
/// On Linux it combines two clocks and follows the faster one. `CLOCK_BOOTTIME` counts a suspend but is slewed with the
/// wall clock. `CLOCK_MONOTONIC_RAW` is not slewed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The longest single timer. Timers of the operating system stop during a suspend, and this bounds the delay
/// afterwards.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        machine::now()
    }

    fn wall_micros(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        Box::pin(sleep_until(at, || Duration::ZERO))
    }
}

/// Sleeps until the system clock, plus an offset, is at `at`.
async fn sleep_until(at: Instant, offset: impl Fn() -> Duration) {
    loop {
        // Read again after each slice, because the timer does not count a suspend, and the offset may have changed.
        let now = machine::now();
        let left = at.since(now + offset());
        if left.is_zero() {
            return;
        }
        crate::runtime::background::sleep_from(now, left.min(SLICE)).await;
    }
}

/// The system clock with an offset, so that a test can let time pass without waiting.
///
/// The offset is in nanoseconds. Copies are the same clock.
#[derive(Clone, Default)]
pub(crate) struct OffsetClock(Arc<AtomicU64>);

impl OffsetClock {
    /// Advances the clock at once, as if the machine had been suspended.
    pub(crate) fn pass(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let later = |ahead: u64| Some(ahead.saturating_add(nanos));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    fn by(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

impl Clock for OffsetClock {
    fn now(&self) -> Instant {
        SystemClock.now() + self.by()
    }

    fn wall_micros(&self) -> u64 {
        let by = u64::try_from(self.by().as_micros()).unwrap_or(u64::MAX);
        SystemClock.wall_micros().saturating_add(by)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let clock = self.clone();
        Box::pin(sleep_until(at, move || clock.by()))
    }
}
