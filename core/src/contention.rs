//! What a client has learnt of contention: how long a round takes, and which keys others want too.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::wait::jittered;

/// More contended keys than this are forgotten: the price is a moment's unfairness.
const MOST: usize = 10_000;
/// Courtesy and patience with a scout, in rounds: time for others to hear of a release and to ask.
const ROUNDS: u32 = 10;
const LEAST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct Contention {
    round_nanos: AtomicU64,
    keys: Mutex<HashSet<String>>,
}

impl Contention {
    /// A granted round took this long; recent ones count most.
    pub(crate) fn took(&self, round: Duration) {
        let new = u64::try_from(round.as_nanos()).unwrap_or(u64::MAX);
        let old = self.round_nanos.load(Ordering::Relaxed);
        let mean = if old == 0 { new } else { old - old / 8 + new / 8 };
        self.round_nanos.store(mean, Ordering::Relaxed);
    }

    /// Some round trips, as measured here.
    pub(crate) fn rounds(&self) -> Duration {
        let round = Duration::from_nanos(self.round_nanos.load(Ordering::Relaxed));
        (round * ROUNDS).clamp(LEAST, LONGEST)
    }

    /// Notes whether others were there first when these keys were acquired.
    pub(crate) fn note(&self, keys: &[String], contended: bool) {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > MOST {
            known.clear();
        }
        for key in keys {
            if !contended {
                known.remove(key);
            } else if !known.contains(key) {
                known.insert(key.clone());
            }
        }
    }

    /// How long to let others go first: whoever releases and asks again at once would always win, for its acquire
    /// follows its own release on the same connection while the others are still being told.
    pub(crate) fn courtesy(&self, keys: &[String]) -> Option<Duration> {
        let known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = !known.is_empty() && keys.iter().any(|key| known.contains(key));
        wanted.then(|| jittered(self.rounds()))
    }
}
