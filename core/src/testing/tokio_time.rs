//! tokio's time as a clock: a runtime whose time is paused moves leases, too.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant as TokioInstant;

use super::wall::wall_micros;
use crate::background;
use crate::clock::{Clock, Instant, SLICE, Sleep, SystemClock};
use crate::error::{Error, Result};

/// So many turns of the runtime what was woken has to do what it was woken for: each may wake another.
const TURNS: u32 = 8;

const NO_RUNTIME: &str = "no runtime of tokio's runs here: make the clock inside the test, as under \
                          #[tokio::test(start_paused = true)], or take TestClock::new(), which needs none";
const NO_TIMERS: &str = "the runtime of tokio's that runs here has no timers: build it with enable_time() or \
                         enable_all(), or take TestClock::new(), which needs none";

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
#[derive(Default)]
struct Marks {
    /// How far it is ahead.
    ahead: Duration,
    /// What tokio's was when it was asked for last.
    seen: Duration,
    /// When the runtime ended, by the machine's time: nothing moves the runtime's any more, and the machine's goes on.
    over: Option<Instant>,
}

impl TokioTime {
    /// The time of the runtime that runs here; `Invalid` outside of any, and where it has no timers.
    pub(super) fn here() -> Result<Self> {
        let runtime = Handle::try_current().map_err(|_| Error::invalid(NO_RUNTIME))?;
        // Tokio tells by a panic alone; better here than in the task that keeps a lease.
        catch_unwind(AssertUnwindSafe(|| drop(tokio::time::sleep(Duration::ZERO))))
            .map_err(|_| Error::invalid(NO_TIMERS))?;
        let (start, marks, bell) = (TokioInstant::now(), Mutex::default(), Notify::new());
        let time = Self(Arc::new(Shared { runtime, start, marks, bell }));
        let last = Last(Arc::downgrade(&time.0));
        drop(time.0.runtime.spawn(async move {
            let _last = last;
            pending::<()>().await;
        }));
        Ok(time)
    }

    /// Where those must run who go by it: while they have something to do, time that is paused stands still.
    pub(super) fn runtime(&self) -> Handle {
        self.0.runtime.clone()
    }

    /// So much time has passed since it was made.
    pub(super) fn elapsed(&self) -> Duration {
        let mut marks = self.0.marks();
        let passed = match marks.over {
            Some(since) => marks.seen.saturating_add(SystemClock.now().since(since)),
            None => self.0.by_tokio(&mut marks),
        };
        passed.saturating_add(marks.ahead)
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
        turns().await;
    }

    /// So long at most, by the machine's time, too: nobody may be there who runs the runtime.
    pub(super) async fn moment(&self, time: Duration) {
        let late = async {
            background::sleep(time).await;
            turns().await;
        };
        future::select(pin!(self.advance(time)), pin!(late)).await;
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
        if !background::has_locals() {
            return background::there(self.sleep_until(at)).await;
        }
        let timer = {
            // A timer belongs to the runtime in which it is made, whoever awaits it.
            let _inside = self.0.runtime.enter();
            tokio::time::sleep(left)
        };
        let beside = async {
            background::sleep(left).await;
            if self.now() < at {
                pending::<()>().await;
            }
        };
        tokio::select! {
            // First, as a timer of a runtime that has ended panics.
            biased;
            () = rung => {}
            () = timer => {}
            // Where nobody runs the runtime, its timers never end.
            () = beside => {}
        }
    }
}

impl Shared {
    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has a time of its own, which is asked for inside of it; a thread that cannot be inside has what others saw.
    fn by_tokio(&self, marks: &mut Marks) -> Duration {
        if background::has_locals() {
            let _inside = self.runtime.enter();
            marks.seen = marks.seen.max(self.start.elapsed());
        }
        marks.seen
    }
}

/// Those who woke have done what they woke for then.
async fn turns() {
    for _ in 0..TURNS {
        yield_now().await;
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
        let mut marks = time.marks();
        time.by_tokio(&mut marks);
        marks.over = Some(SystemClock.now());
        drop(marks);
        time.bell.notify_waiters();
    }
}
