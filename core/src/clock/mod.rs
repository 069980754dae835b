//! Monotonic time that also counts while the machine is suspended.
//!
//! The lifetime of a lease never depends on a wall clock. A step forward would end every lease, and a step back would
//! extend it beyond its end. A client may use another [`Clock`], as the simulation does.

mod offset;
#[cfg(test)]
pub(crate) mod paused;
mod polls;
pub(crate) mod stepping;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use offset::OffsetClock;
pub use polls::Polls;
pub(crate) use polls::polled;

use crate::runtime::machine;
pub use crate::runtime::machine::Instant;
pub(crate) use crate::runtime::machine::{NEVER, nanos};

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

    /// The polls of calls that are under way, for a clock that does not move meanwhile.
    #[doc(hidden)]
    fn polls(&self) -> Option<&Polls> {
        None
    }
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
        Box::pin(async move {
            loop {
                // Read again after each slice, because the timer does not count a suspend.
                let now = machine::now();
                let left = at.since(now);
                if left.is_zero() {
                    return;
                }
                crate::runtime::background::sleep_from(now, left.min(SLICE)).await;
            }
        })
    }
}
