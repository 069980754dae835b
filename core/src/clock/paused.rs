//! The paused clock of tokio's runtime, for unit tests: time passes only while every task waits.

use std::time::Duration;

use tokio::time::{Instant as Start, sleep_until};

use super::{Clock, Instant, Sleep};

pub(crate) struct Paused(Start);

impl Paused {
    pub(crate) fn new() -> Self {
        Self(Start::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for Paused {
    fn now(&self) -> Instant {
        Instant::from_start(self.elapsed())
    }

    fn wall_micros(&self) -> u64 {
        0
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let left = at.since(self.now()).min(Duration::from_hours(1));
        Box::pin(sleep_until(self.0 + self.elapsed() + left))
    }
}
