//! A client's clock, which runs slightly fast or slow, and whose wall clock has an offset.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::{Clock, Instant, Sleep};

use super::world::{END, World};

/// True time in nanoseconds.
pub(super) type Time = u64;

/// The difference between a client's clock and true time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Speed of the clock in parts per million above true time.
    pub(super) ppm: i64,
    pub(super) wall_offset_us: i64,
}

#[derive(Clone)]
pub(super) struct ClientClock {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) rate: Rate,
}

fn scaled(time: u64, ppm: i64) -> u64 {
    let time = i128::from(time);
    u64::try_from(time + time * i128::from(ppm) / 1_000_000).unwrap()
}

impl Rate {
    pub(super) fn local(&self, time: Time) -> Instant {
        Instant::from_start(Duration::from_nanos(scaled(time, self.ppm)))
    }

    /// The first true time from now on at which this clock shows `at`.
    fn when(&self, now: Time, at: Instant) -> Time {
        let local = u64::try_from(at.since(Instant::from_start(Duration::ZERO)).as_nanos());
        let Some(local) = local.ok().filter(|local| *local < 2 * END) else { return u64::MAX };
        let time = u128::from(local) * 1_000_000 / u128::try_from(1_000_000 + self.ppm).unwrap();
        let mut time = u64::try_from(time).unwrap();
        while self.local(time) < at {
            time += 1;
        }
        time.max(now)
    }
}

impl Clock for ClientClock {
    fn now(&self) -> Instant {
        self.rate.local(self.world.lock().unwrap().now)
    }

    fn wall_micros(&self) -> u64 {
        let now = self.world.lock().unwrap().now;
        super::server::EPOCH_US.saturating_add_signed(self.rate.wall_offset_us) + now / 1000
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let world = Arc::clone(&self.world);
        let (mut due, mut registered) = (None, false);
        let rate = self.rate;
        Box::pin(std::future::poll_fn(move |cx| {
            let mut world = world.lock().unwrap();
            let due = *due.get_or_insert_with(|| rate.when(world.now, at));
            if world.now >= due {
                return std::task::Poll::Ready(());
            }
            // One waker is enough, because a sleep of the code under test stays in the task that polled it first.
            if !registered && due < END {
                world.wake_at(due, cx.waker().clone());
                registered = true;
            }
            std::task::Poll::Pending
        }))
    }
}
