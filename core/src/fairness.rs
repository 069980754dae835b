//! Fairness between clients: which keys other clients want, how long to let those try first, and how long a round
//! takes.
//!
//! These are estimates, measured in this process only. They decide which client tries first, and how long to wait for
//! the reply of a single node. They never grant or refuse a lease. Readers and writers take turns by other means
//! (`primitive/rwlock.rs`).

use std::array::from_fn;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use foldhash::quality::FixedState;

use crate::clock::{Instant, jittered, nanos};
use crate::collections::Keyed;
use crate::runtime;

/// The maximum number of contended keys. With more, all are forgotten, which briefly costs fairness.
const MAX_CONTENDED_KEYS: usize = 10_000;
/// How long other clients may try first, in rounds. This is enough to receive a release notification and to send a
/// vote.
const ROUNDS: u32 = 10;
/// The minimum of that time. Ten rounds over loopback take less time than a busy machine needs to wake a thread.
const MIN_PRECEDENCE: Duration = Duration::from_millis(1);
/// The maximum of that time. Over a slow network, ten rounds would cost more than the fairness is worth.
const MAX_PRECEDENCE: Duration = Duration::from_millis(50);

/// Over several nodes, this many acquires in a row must find a key free at once before it counts as uncontended. A
/// client that has just waited its turn finds the key free too. With a lower count, it would take the key again
/// before the others could collect their votes.
const UNCONTENDED: u32 = 8;
/// The same over one node, which serves requests in order of arrival. On a busy machine the others may try later than
/// one pause. With 1 instead, two processes on one core took turns in 45 to 68 % of their holds, with 4 in 91 to 93 %
/// (Python, 5 ms a turn).
const UNCONTENDED_ALONE: u32 = 4;

/// A client that takes one lock repeatedly pauses for this fraction of the time, in case others want it.
const SHARE: u32 = 128;
/// How often the time between these pauses doubles, at most.
const DOUBLINGS: u32 = 3;
/// The number of locks whose last release is known. Two locks that share a slot overwrite each other.
const RELEASE_SLOTS: usize = 16;

/// What a client has learned about contention.
pub(crate) struct Fairness {
    /// The mean duration of a round, or 0 before the first one. If two rounds end at once, one may be lost. That is
    /// harmless and saves a mutex.
    round_nanos: AtomicU64,
    uncontended: u32,
    /// For each contended key, how many such acquires are missing.
    ///
    /// No request is sent, no future is awaited and no task is woken under this mutex. The names are copies, because
    /// they outlive the requests.
    contended: Mutex<Keyed<u32, String>>,
    /// Whether a key may be contended. Most clients never see one, and need not lock the map for each acquire.
    has_contended: AtomicBool,
    releases: [Mutex<Release>; RELEASE_SLOTS],
    hasher: FixedState,
}

/// The last release of a lock, which is known by the hash of its first key.
#[derive(Default)]
struct Release {
    lock: u64,
    at: Instant,
    /// Since when every acquire has followed a release closely.
    repeated_since: Instant,
    /// How often the time between pauses has doubled.
    doublings: u32,
}

impl Fairness {
    pub(crate) fn new(nodes: usize) -> Self {
        let uncontended = if nodes > 1 { UNCONTENDED } else { UNCONTENDED_ALONE };
        Self {
            round_nanos: AtomicU64::default(),
            uncontended,
            contended: Mutex::default(),
            has_contended: AtomicBool::default(),
            releases: from_fn(|_| Mutex::default()),
            hasher: FixedState::default(),
        }
    }

    /// Records the duration of a granted round. Recent ones count most.
    pub(crate) fn took(&self, round: Duration) {
        let new = nanos(round);
        let old = self.round_nanos.load(Ordering::Relaxed);
        // The newest round counts an eighth, as in TCP's round-trip time (RFC 6298). A faster one counts half,
        // because a first round also connects. Otherwise clients that step back would wait that long for dozens of
        // turns (slowest hundredth on Node.js: 10 ms).
        let mean = match old {
            0 => new,
            _ if new < old => old / 2 + new / 2,
            _ => old - old / 8 + new / 8,
        };
        self.round_nanos.store(mean, Ordering::Relaxed);
    }

    pub(crate) fn rounds(&self) -> Duration {
        self.measured_rounds().unwrap_or_default().clamp(MIN_PRECEDENCE, MAX_PRECEDENCE)
    }

    /// The time of some rounds as measured here, or `None` before the first one.
    pub(crate) fn measured_rounds(&self) -> Option<Duration> {
        let nanos = self.round_nanos.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos) * ROUNDS)
    }

    /// Records an acquire of these keys, and whether other clients held them before.
    pub(crate) fn acquired(&self, keys: &[String], contended: bool) {
        if !contended && !self.has_contended.load(Ordering::Relaxed) {
            return;
        }
        let mut known = runtime::lock(&self.contended);
        if known.len() > MAX_CONTENDED_KEYS {
            // Removes all of them, because tracking the oldest would slow down every acquire.
            known.clear();
        }
        for key in keys {
            match known.get_mut(key) {
                Some(missing) if contended => *missing = self.uncontended,
                Some(1) => drop(known.remove(key)),
                Some(missing) => *missing -= 1,
                // Only contended keys have an entry, so uncontended locks cost no memory.
                None if contended => drop(known.insert(key.clone(), self.uncontended)),
                None => {}
            }
        }
        self.has_contended.store(!known.is_empty(), Ordering::Relaxed);
    }

    /// How long other clients may try first, if they want one of these keys. A client that re-acquires right after its
    /// release would always win. Its acquire follows its own release on the same connection, while the others are still
    /// being notified.
    ///
    /// A key counts as contended until enough acquires in a row found it free at once. With one over several nodes, the
    /// slowest hundredth of 8 processes over 5 nodes waited 6 times the fair share. With eight it waited 2.6 times the
    /// fair share, for 14 % fewer handoffs (`bench/waits.py contend`).
    pub(crate) fn pause_if_contended(&self, keys: &[String]) -> Option<Duration> {
        if !self.has_contended.load(Ordering::Relaxed) {
            return None;
        }
        let known = runtime::lock(&self.contended);
        let wanted = keys.iter().any(|key| known.contains_key(key));
        // With jitter: two clients that step back together must not return together.
        wanted.then(|| jittered(self.rounds()))
    }

    /// How long other clients may try first, if this client has re-acquired this lock right after each release for a
    /// long time.
    ///
    /// Such a client sends its votes before the others are notified. It is never refused, so it never notices
    /// contention. Callers of the same process that wait behind it have the same advantage. Without the pause, one of
    /// two processes on one core held the lock for a whole measurement of two seconds.
    pub(crate) fn pause_if_repeated(&self, keys: &[String], now: Instant) -> Option<Duration> {
        let soon = self.measured_rounds()?.max(MIN_PRECEDENCE);
        let times = self.repeated(keys, now, soon, self.rounds() * SHARE)?;
        // Longer each time that no other client acquired the lock, because others may be farther from the nodes.
        Some(jittered(self.rounds()) * times)
    }

    /// Records that the lock on these keys is released.
    pub(crate) fn released(&self, keys: &[String], now: Instant) {
        let (lock, mut release) = self.release(keys);
        if release.lock != lock {
            *release = Release { lock, repeated_since: now, ..Release::default() };
        }
        release.at = now;
    }

    /// Whether the lock on these keys has been re-acquired for at least `long`, each time within `soon` of its release
    /// and including this time.
    ///
    /// Returns the factor by which `long` was multiplied. The measurement then starts again with twice the duration, up
    /// to [`DOUBLINGS`] times.
    fn repeated(
        &self,
        keys: &[String],
        now: Instant,
        soon: Duration,
        long: Duration,
    ) -> Option<u32> {
        let (lock, mut release) = self.release(keys);
        if release.lock != lock {
            return None;
        }
        if now.since(release.at) > soon {
            (release.repeated_since, release.doublings) = (now, 0);
            return None;
        }
        let factor = 1 << release.doublings;
        if now.since(release.repeated_since) < long * factor {
            return None;
        }
        (release.repeated_since, release.doublings) = (now, DOUBLINGS.min(release.doublings + 1));
        Some(factor)
    }

    /// The hash of the first key, and the slot for it.
    fn release(&self, keys: &[String]) -> (u64, MutexGuard<'_, Release>) {
        let lock = self.hasher.hash_one(keys.first().map_or("", String::as_str));
        let release = &self.releases[usize::from(lock.to_le_bytes()[0]) % RELEASE_SLOTS];
        (lock, runtime::lock(release))
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
        let (fairness, job) = (Fairness::new(1), keys("job"));
        let mut reported = Vec::new();
        for turn in 0..200 {
            let factor = fairness.repeated(&job, at(turn * 10), SOON, LONG);
            reported.extend(factor.map(|factor| (turn, factor)));
            fairness.released(&job, at(turn * 10 + 10));
        }
        assert_eq!(reported, [(8, 1), (21, 2), (47, 4), (99, 8), (151, 8)]);
    }

    #[test]
    fn pause_between_acquires_resets_the_count() {
        let (fairness, job) = (Fairness::new(1), keys("job"));
        for turn in 0..100 {
            assert_eq!(fairness.repeated(&job, at(turn * 60), SOON, LONG), None, "{turn}");
            fairness.released(&job, at(turn * 60 + 50));
        }
        // Other locks are counted separately.
        assert_eq!(fairness.repeated(&keys("other"), at(6000), SOON, LONG), None);
    }

    #[test]
    fn contended_key_counts_as_free_after_enough_uncontended_acquires() {
        for (nodes, enough) in [(1, 4), (5, 8)] {
            let (fairness, job) = (Fairness::new(nodes), keys("job"));
            assert_eq!(fairness.pause_if_contended(&job), None);
            fairness.acquired(&job, true);
            for _ in 0..enough {
                let pause = fairness.pause_if_contended(&job).expect("others want it");
                assert!(pause >= MIN_PRECEDENCE / 2 && pause <= MIN_PRECEDENCE, "{pause:?}");
                assert_eq!(fairness.pause_if_contended(&keys("other")), None);
                fairness.acquired(&job, false);
            }
            assert_eq!(fairness.pause_if_contended(&job), None, "{nodes}");
        }
    }
}
