//! Time that nobody can step: monotonic, and counting while the machine is suspended.
//!
//! No wall clock has a part in a lease's time: stepped forward it would end every lease for nothing, stepped
//! back it would keep one beyond its end. A client may be given another [`Clock`], as the simulation is.

mod ahead;
mod furthest;
pub(crate) mod instant;
pub(crate) mod machine;

pub(crate) use ahead::Ahead;
pub use instant::Instant;
pub(crate) use instant::NEVER;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A future that ends at some instant.
/// It can be awaited on any runtime, and dropped at any time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where every deadline of the library comes from.
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
    /// The time now.
    ///
    /// It never goes back, and goes on while the machine is suspended: servers count on meanwhile.
    fn now(&self) -> Instant;

    /// Microseconds since 1970 by the wall clock. It may step: it is only ever a proposal for a fencing token.
    fn wall_micros(&self) -> u64;

    /// Ends at `at`, also when the machine was suspended meanwhile.
    /// It may be late, and never early: deadlines are compared with `now` by whoever wakes.
    fn sleep_until(&self, at: Instant) -> Sleep;
}

/// The machine's own clocks, whichever ran further: the one that counts suspend but is slewed as the wall clock is
/// (`CLOCK_BOOTTIME` on Linux), and the one that nobody slews (`CLOCK_MONOTONIC_RAW`).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Timers of the operating system stop during a suspend; short slices bound how late that makes us.
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
                // Asked again after each slice: the timer alone does not know of a suspend.
                let now = machine::now();
                let left = at.since(now);
                if left.is_zero() {
                    return;
                }
                crate::background::sleep_from(now, left.min(SLICE)).await;
            }
        })
    }
}
