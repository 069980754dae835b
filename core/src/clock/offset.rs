//! The system clock with an offset, so that a test can let time pass without waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Clock, Instant, SLICE, Sleep, SystemClock};

/// The offset in nanoseconds. Copies are the same clock.
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
        Box::pin(async move {
            loop {
                // Read again after each slice, because the offset may have changed.
                let left = at.since(clock.now());
                if left.is_zero() {
                    return;
                }
                crate::runtime::background::sleep(left.min(SLICE)).await;
            }
        })
    }
}
