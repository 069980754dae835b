//! A clock that follows tokio's time, so that pausing a runtime's time also pauses leases.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant as TokioInstant;

use crate::clock::{Clock, Instant, Sleep};
use crate::error::{Error, Result};
use crate::runtime::{background, lock};

/// How many turns of the runtime woken tasks get to do their work, because each may wake another.
const TURNS: u32 = 8;

const NO_RUNTIME: &str = "no tokio runtime is running. Create the clock inside the test, as with \
    #[tokio::test(start_paused = true)], or use TestClock::new(), which needs none";
const NO_TIMERS: &str = "the current tokio runtime has no timers. Build it with enable_time() or enable_all(), or use \
    TestClock::new(), which needs none";

/// The time of one runtime. Copies are the same clock.
#[derive(Clone)]
pub(super) struct TokioTime(Arc<Shared>);

struct Shared {
    runtime: Handle,
    start: TokioInstant,
    marks: Mutex<Marks>,
    /// Notified when time advanced other than by tokio's timers.
    changed: Notify,
}

/// The difference between this clock and tokio's time.
#[derive(Default)]
struct Marks {
    /// How far this clock is ahead.
    ahead: Duration,
    /// Tokio's time at the last reading.
    seen: Duration,
}

impl TokioTime {
    /// The time of the current runtime. `Invalid` if there is none, or if it has no timers.
    pub(super) fn here() -> Result<Self> {
        let runtime = Handle::try_current().map_err(|_| Error::invalid(NO_RUNTIME))?;
        // Tokio only reports missing timers by a panic. It is better caught here than in the task that keeps a lease.
        catch_unwind(AssertUnwindSafe(|| drop(tokio::time::sleep(Duration::ZERO))))
            .map_err(|_| Error::invalid(NO_TIMERS))?;
        let (start, marks, changed) = (TokioInstant::now(), Mutex::default(), Notify::new());
        Ok(Self(Arc::new(Shared { runtime, start, marks, changed })))
    }

    /// The runtime that must run the tasks that use this clock. Paused time stands still while they have work to do.
    pub(super) fn runtime(&self) -> Handle {
        self.0.runtime.clone()
    }

    pub(super) fn elapsed(&self) -> Duration {
        let mut marks = lock(&self.0.marks);
        self.0.by_tokio(&mut marks).saturating_add(marks.ahead)
    }

    pub(super) fn jump(&self, time: Duration) {
        let mut marks = lock(&self.0.marks);
        marks.ahead = marks.ahead.saturating_add(time);
        drop(marks);
        self.0.changed.notify_waiters();
    }

    /// Sleeps for `time`, and then lets the woken tasks run.
    pub(super) async fn advance(&self, time: Duration) {
        self.sleep_until(self.now() + time).await;
        turns().await;
    }

    /// Waits until `at`, or until time advanced other than by tokio's timers.
    async fn wait(&self, at: Instant) {
        let mut changed = pin!(self.0.changed.notified());
        // Registered before the check, so that a notification in between is not missed.
        changed.as_mut().enable();
        let timer = {
            // A timer belongs to the runtime in which it is made.
            let _inside = self.0.runtime.enter();
            tokio::time::sleep(at.since(self.now()))
        };
        tokio::select! {
            () = changed => {}
            () = timer => {}
        }
    }
}

impl Shared {
    /// Tokio's time, which must be read inside the runtime. A thread that cannot enter it uses the last reading.
    fn by_tokio(&self, marks: &mut Marks) -> Duration {
        if background::has_locals() {
            let _inside = self.runtime.enter();
            marks.seen = marks.seen.max(self.start.elapsed());
        }
        marks.seen
    }
}

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

/// The wall clock at the start, in microseconds since 1970.
const START: u64 = 1_700_000_000_000_000;

pub(super) fn wall_micros(elapsed: Duration) -> u64 {
    START.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}
