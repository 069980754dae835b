//! A clock that a test can advance: the system clock with an offset, or one that otherwise stands still.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future;

use super::stepping::{Sleepers, Stepped};
use super::{Clock, Instant, Polls, SLICE, Sleep, SystemClock, nanos};
use crate::runtime::{background, lock, machine};

/// The wall clock at the start of a clock that stands still, in microseconds since 1970.
const WALL_START: u64 = 1_700_000_000_000_000;

/// The system clock, or one that stands still, with an offset. Copies are the same clock.
#[derive(Clone, Default)]
pub(crate) struct OffsetClock(Arc<OffsetState>);

#[derive(Default)]
struct OffsetState {
    /// Whether only the offset lets time pass.
    stands_still: bool,
    /// In nanoseconds.
    offset: AtomicU64,
    sleepers: Mutex<Sleepers>,
    polls: Polls,
}

impl OffsetClock {
    /// A clock whose time passes only when it is advanced.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn standing_still() -> Self {
        Self(Arc::new(OffsetState { stands_still: true, ..OffsetState::default() }))
    }

    /// Advances the clock at once, as if the machine had been suspended.
    pub(crate) fn advance(&self, time: Duration) {
        let later = |ahead: u64| Some(ahead.saturating_add(nanos(time)));
        let _ = self.0.offset.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        self.wake_due();
    }

    fn wake_due(&self) {
        let due = lock(&self.0.sleepers).due(self.now());
        due.into_iter().for_each(Waker::wake);
    }

    /// The time without the offset.
    fn base(&self) -> Instant {
        if self.0.stands_still { Instant::default() } else { machine::now() }
    }

    fn by(&self) -> Duration {
        Duration::from_nanos(self.0.offset.load(Ordering::SeqCst))
    }
}

impl Stepped for OffsetClock {
    fn move_to(&self, at: Instant) {
        // Of two concurrent calls, the later time wins.
        let offset = nanos(at.since(self.base()));
        self.0.offset.fetch_max(offset, Ordering::SeqCst);
        self.wake_due();
    }

    fn with_sleepers<T>(&self, read: impl FnOnce(&Sleepers) -> T) -> T {
        read(&lock(&self.0.sleepers))
    }
}

impl Clock for OffsetClock {
    fn now(&self) -> Instant {
        self.base() + self.by()
    }

    fn wall_micros(&self) -> u64 {
        let base = if self.0.stands_still { WALL_START } else { SystemClock.wall_micros() };
        base.saturating_add(u64::try_from(self.by().as_micros()).unwrap_or(u64::MAX))
    }

    fn polls(&self) -> Option<&Polls> {
        Some(&self.0.polls)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let key = lock(&self.0.sleepers).key(at);
        let sleeper = OffsetSleeper { clock: self.clone(), key };
        Box::pin(async move {
            let moved = || poll_fn(|cx| sleeper.poll(cx));
            if sleeper.clock.0.stands_still {
                return moved().await;
            }
            while !sleeper.is_due() {
                let now = machine::now();
                let left = at.since(now + sleeper.clock.by());
                // The timer does not count a suspend.
                let slice = background::sleep_from(now, left.min(SLICE));
                future::select(pin!(slice), pin!(moved())).await;
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
