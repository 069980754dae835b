//! tokio's time as a clock: a runtime whose time is paused moves leases, too.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant as TokioInstant;

use super::wall::wall_micros;
use crate::background;
use crate::clock::{Clock, Instant, SLICE, Sleep, SystemClock};

/// So many turns of the runtime what was woken has to do what it was woken for: each may wake another.
const TURNS: u32 = 8;

/// The time of one runtime; its copies are one clock.
#[derive(Clone)]
pub(super) struct TokioTime(Arc<Shared>);

struct Shared {
    runtime: Handle,
    start: TokioInstant,
    marks: Mutex<Marks>,
    /// Rung when time went on otherwise than by tokio's timers.
    bell: Notify,
}

/// What makes it another time than tokio's.
#[derive(Clone, Copy, Default)]
struct Marks {
    /// How far it is ahead.
    ahead: Duration,
    /// Once the runtime has ended, nothing moves its time: what it was then, and the machine's, which goes on.
    over: Option<(Duration, Instant)>,
}

impl TokioTime {
    /// The time of the runtime that runs here; `None` outside of any.
    pub(super) fn here() -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let (start, marks, bell) = (TokioInstant::now(), Mutex::default(), Notify::new());
        let time = Self(Arc::new(Shared { runtime, start, marks, bell }));
        let last = Last(Arc::downgrade(&time.0));
        drop(time.0.runtime.spawn(async move {
            let _last = last;
            pending::<()>().await;
        }));
        Some(time)
    }

    /// Where those must run who go by it: while they have something to do, time that is paused stands still.
    pub(super) fn runtime(&self) -> Handle {
        self.0.runtime.clone()
    }

    /// So much time has passed since it was made.
    pub(super) fn elapsed(&self) -> Duration {
        let marks = *self.0.marks();
        let passed = match marks.over {
            Some((then, since)) => then + SystemClock.now().since(since),
            None => self.0.by_tokio(),
        };
        passed + marks.ahead
    }

    /// So much time passes at once.
    pub(super) fn jump(&self, time: Duration) {
        let mut marks = self.0.marks();
        marks.ahead = marks.ahead.saturating_add(time);
        drop(marks);
        self.0.bell.notify_waiters();
    }

    /// Sleeps for so long, and until those who woke meanwhile have done what they woke for.
    pub(super) async fn advance(&self, time: Duration) {
        self.sleep_until(self.now() + time).await;
        for _ in 0..TURNS {
            yield_now().await;
        }
    }

    /// Until then, or until time went on otherwise.
    async fn wait(&self, at: Instant) {
        let mut rung = pin!(self.0.bell.notified());
        // Registered before the look: what rings in between would ring for nobody.
        rung.as_mut().enable();
        let left = at.since(self.now());
        if self.0.marks().over.is_some() {
            return background::sleep(left.min(SLICE)).await;
        }
        let timer = {
            // A timer belongs to the runtime in which it is made, whoever awaits it.
            let _inside = self.0.runtime.enter();
            tokio::time::sleep(left)
        };
        tokio::select! {
            // First, as a timer of a runtime that has ended panics.
            biased;
            () = rung => {}
            () = timer => {}
        }
    }
}

impl Shared {
    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has a time of its own, which is asked for inside of it.
    fn by_tokio(&self) -> Duration {
        let _inside = self.runtime.enter();
        self.start.elapsed()
    }
}

impl Clock for TokioTime {
    fn now(&self) -> Instant {
        Instant::from_start(self.elapsed())
    }

    fn wall_micros(&self) -> u64 {
        wall_micros(self.elapsed())
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let time = self.clone();
        Box::pin(async move {
            while time.now() < at {
                time.wait(at).await;
            }
        })
    }
}

/// What the runtime drops last of the clock: its own end.
struct Last(Weak<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        let Some(time) = self.0.upgrade() else { return };
        let over = Some((time.by_tokio(), SystemClock.now()));
        time.marks().over = over;
        time.bell.notify_waiters();
    }
}
