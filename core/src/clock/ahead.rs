//! The machine's clock, put forward: a test has time pass that nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Clock, Instant, SLICE, Sleep, SystemClock};

/// How far ahead it is, in nanoseconds; its copies are one clock.
#[derive(Clone, Default)]
pub(crate) struct Ahead(Arc<AtomicU64>);

impl Ahead {
    /// So much time passes at once, as on a machine that was suspended.
    pub(crate) fn pass(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let later = |ahead: u64| Some(ahead.saturating_add(nanos));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    fn by(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

impl Clock for Ahead {
    fn now(&self) -> Instant {
        SystemClock.now() + self.by()
    }

    fn wall_micros(&self) -> u64 {
        let by = u64::try_from(self.by().as_micros()).unwrap_or(u64::MAX);
        SystemClock.wall_micros().saturating_add(by)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                // Asked again after each slice: time may have passed.
                let left = at.since(clock.now());
                if left.is_zero() {
                    return;
                }
                crate::background::sleep(left.min(SLICE)).await;
            }
        })
    }
}
