//! Locks that are taken again right after they were given back, and for how long that has gone on.

use std::array::from_fn;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::FixedState;

use crate::clock::Instant;

/// So many locks are kept in mind; of two that share a place only the one that was given back last.
const PLACES: usize = 16;

/// Twice as long each time, and so many times at most.
const DOUBLINGS: u32 = 3;

/// What a client has given back of late.
pub(crate) struct Again {
    places: [Mutex<Place>; PLACES],
    hasher: FixedState,
}

/// One lock, by the hash of its first key: locks of several keys that begin alike are one.
#[derive(Default)]
struct Place {
    lock: u64,
    /// When it was given back last.
    given_back: Instant,
    /// Since when it has always been taken again soon after.
    since: Instant,
    /// How often that has lasted by now.
    times: u32,
}

impl Again {
    pub(crate) fn new() -> Self {
        Self { places: from_fn(|_| Mutex::default()), hasher: FixedState::default() }
    }

    /// The place for these keys, and by which hash they are in it.
    fn place(&self, keys: &[String]) -> (u64, MutexGuard<'_, Place>) {
        let lock = self.hasher.hash_one(keys.first().map_or("", String::as_str));
        let place = &self.places[usize::from(lock.to_le_bytes()[0]) % PLACES];
        (lock, place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The lock over these keys is given back.
    pub(crate) fn give_back(&self, keys: &[String], now: Instant) {
        let (lock, mut place) = self.place(keys);
        if place.lock != lock {
            *place = Place { lock, since: now, ..Place::default() };
        }
        place.given_back = now;
    }

    /// Whether the lock over these keys has been taken again for `long`, each time no later than `soon` after it was given
    /// back; this time, too. Then it counts anew, up to twice as long as before: the factor.
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
    fn a_lock_that_is_taken_again_and_again_is_known_once_it_has_lasted() {
        let (again, job) = (Again::new(), keys("job"));
        let mut told = Vec::new();
        for turn in 0..200 {
            let factor = again.has_lasted(&job, at(turn * 10), (SOON, LONG));
            told.extend(factor.map(|factor| (turn, factor)));
            again.give_back(&job, at(turn * 10 + 10));
        }
        assert_eq!(told, [(8, 1), (21, 2), (47, 4), (99, 8), (151, 8)]);
    }

    #[test]
    fn who_pauses_in_between_has_not_taken_it_again() {
        let (again, job) = (Again::new(), keys("job"));
        for turn in 0..100 {
            assert_eq!(again.has_lasted(&job, at(turn * 60), (SOON, LONG)), None, "{turn}");
            again.give_back(&job, at(turn * 60 + 50));
        }
        // Another lock is not this one.
        assert_eq!(again.has_lasted(&keys("other"), at(6000), (SOON, LONG)), None);
    }
}
