//! Detects locks that a client re-acquires right after releasing them, and for how long this has gone on.

use std::array::from_fn;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::FixedState;

use crate::clock::Instant;

/// Number of slots. Two locks that share a slot overwrite each other: the slot describes the lock released last.
const PLACES: usize = 16;

/// How often the required duration doubles, at most.
const DOUBLINGS: u32 = 3;

/// The locks that a client released most recently.
pub(crate) struct Again {
    places: [Mutex<Place>; PLACES],
    hasher: FixedState,
}

/// One slot: a lock, identified by the hash of its first key. Locks on several names with the same first key count as
/// one.
#[derive(Default)]
struct Place {
    lock: u64,
    /// When the lock was last released.
    given_back: Instant,
    /// Since when every acquire has followed a release closely.
    since: Instant,
    /// How often the required duration has been reached.
    times: u32,
}

impl Again {
    pub(crate) fn new() -> Self {
        Self { places: from_fn(|_| Mutex::default()), hasher: FixedState::default() }
    }

    /// Returns the hash of the first key, and the locked slot for it.
    fn place(&self, keys: &[String]) -> (u64, MutexGuard<'_, Place>) {
        let lock = self.hasher.hash_one(keys.first().map_or("", String::as_str));
        let place = &self.places[usize::from(lock.to_le_bytes()[0]) % PLACES];
        (lock, place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that the lock on these keys is released.
    pub(crate) fn give_back(&self, keys: &[String], now: Instant) {
        let (lock, mut place) = self.place(keys);
        if place.lock != lock {
            *place = Place { lock, since: now, ..Place::default() };
        }
        place.given_back = now;
    }

    /// Whether the lock on these keys has been re-acquired for at least `long`, each time within `soon` of its release
    /// and including this time.
    ///
    /// Returns the factor by which `long` was multiplied. The measurement then starts again with twice the duration, up
    /// to [`DOUBLINGS`] times.
    pub(crate) fn has_lasted(
        &self,
        keys: &[String],
        now: Instant,
        (soon, long): (Duration, Duration),
    ) -> Option<u32> {
        let (lock, mut place) = self.place(keys);
        if place.lock != lock {
            return None;
        }
        if now.since(place.given_back) > soon {
            (place.since, place.times) = (now, 0);
            return None;
        }
        let factor = 1 << place.times;
        if now.since(place.since) < long * factor {
            return None;
        }
        (place.since, place.times) = (now, DOUBLINGS.min(place.times + 1));
        Some(factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_millis(64);

    fn at(millis: u64) -> Instant {
        Instant::from_start(Duration::from_millis(millis))
    }

    fn keys(name: &str) -> [String; 1] {
        [name.to_owned()]
    }

    #[test]
    fn detects_repeated_acquires_after_a_while() {
        let (again, job) = (Again::new(), keys("job"));
        let mut reported = Vec::new();
        for turn in 0..200 {
            let factor = again.has_lasted(&job, at(turn * 10), (SOON, LONG));
            reported.extend(factor.map(|factor| (turn, factor)));
            again.give_back(&job, at(turn * 10 + 10));
        }
        assert_eq!(reported, [(8, 1), (21, 2), (47, 4), (99, 8), (151, 8)]);
    }

    #[test]
    fn pause_between_acquires_resets_the_count() {
        let (again, job) = (Again::new(), keys("job"));
        for turn in 0..100 {
            assert_eq!(again.has_lasted(&job, at(turn * 60), (SOON, LONG)), None, "{turn}");
            again.give_back(&job, at(turn * 60 + 50));
        }
        // Other locks are counted separately.
        assert_eq!(again.has_lasted(&keys("other"), at(6000), (SOON, LONG)), None);
    }
}
