//! The system clock with an offset, so that a test can let time pass without waiting.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future;

use super::stepping::{Sleepers, Stepped};
use super::{Clock, Instant, Polls, SLICE, Sleep, SystemClock};
use crate::runtime::{background, lock, machine};

/// The system clock with an offset. Copies are the same clock.
#[derive(Clone, Default)]
pub(crate) struct OffsetClock(Arc<OffsetState>);

#[derive(Default)]
struct OffsetState {
    /// In nanoseconds.
    offset: AtomicU64,
    sleepers: Mutex<Sleepers>,
    polls: Polls,
}

impl OffsetClock {
    /// Advances the clock at once, as if the machine had been suspended.
    pub(crate) fn advance(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let later = |ahead: u64| Some(ahead.saturating_add(nanos));
        let _ = self.0.offset.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        let due = lock(&self.0.sleepers).due(self.now());
        due.into_iter().for_each(Waker::wake);
    }

    fn by(&self) -> Duration {
        Duration::from_nanos(self.0.offset.load(Ordering::SeqCst))
    }
}

impl Stepped for OffsetClock {
    fn move_to(&self, at: Instant) {
        self.advance(at.since(self.now()));
    }

    fn with_sleepers<T>(&self, read: impl FnOnce(&Sleepers) -> T) -> T {
        read(&lock(&self.0.sleepers))
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

    fn polls(&self) -> Option<&Polls> {
        Some(&self.0.polls)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let key = lock(&self.0.sleepers).key(at);
        let sleeper = OffsetSleeper { clock: self.clone(), key };
        Box::pin(async move {
            while !sleeper.is_due() {
                let now = machine::now();
                let left = at.since(now + sleeper.clock.by());
                // The timer does not count a suspend.
                let slice = background::sleep_from(now, left.min(SLICE));
                let moved = poll_fn(|cx| sleeper.poll(cx));
                future::select(pin!(slice), pin!(moved)).await;
            }
        })
    }
}

/// Waits until the clock was moved to its deadline.
struct OffsetSleeper {
    clock: OffsetClock,
    key: (Instant, u64),
}

impl OffsetSleeper {
    fn is_due(&self) -> bool {
        self.clock.now() >= self.key.0
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        // Listed before the clock is read, so that a step in between wakes it.
        lock(&self.clock.0.sleepers).insert(self.key, cx.waker());
        if self.is_due() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for OffsetSleeper {
    fn drop(&mut self) {
        let ended = lock(&self.clock.0.sleepers).remove(self.key);
        if let Some(ended) = ended {
            ended.notify_waiters();
        }
    }
}
