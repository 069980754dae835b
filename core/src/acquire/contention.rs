//! What a client has learnt of contention: how long a round takes, and which keys others want too.
//!
//! All of it is an estimate about others. It decides only which client asks first and how long a scout is awaited
//! alone. It never grants or refuses a lease. It is local to this process, and no node is asked for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::keyed::Keyed;

use super::backoff::jittered;

/// More contended keys than this are forgotten: the price is a moment's unfairness.
const MOST: usize = 10_000;
/// The delay before others, and how long a scout is awaited alone, in rounds. Enough to learn of a release and to
/// ask.
const ROUNDS: u32 = 10;
/// Ten rounds over a loopback take less time than a busy machine needs to wake a thread.
const LEAST: Duration = Duration::from_millis(1);
/// Over a slow network ten rounds would be longer than the politeness is worth.
const LONGEST: Duration = Duration::from_millis(50);

/// Over several nodes, this many acquires in a row must find a key free at once before it counts as uncontended. A
/// client that has just waited its turn finds the key free too. With a lower count, it would take the key again
/// before the others could collect their votes.
const UNCONTENDED: u32 = 8;
/// The same over one node, which serves requests in order of arrival. On a busy machine the others may ask later than
/// one pause. With 1 instead, two processes on one core took turns in 45 to 68 % of their holds, with 4 in 91 to 93 %
/// (Python, 5 ms a turn).
const UNCONTENDED_ALONE: u32 = 4;

/// A client that takes one lock repeatedly pauses for this fraction of the time, in case others want it.
const SHARE: u32 = 128;

/// How long rounds take, and the keys that others want.
pub(crate) struct Contention {
    /// A running mean, 0 before the first round. If two rounds end at once, one may be lost. That is harmless and
    /// saves a mutex.
    round_nanos: AtomicU64,
    /// How many acquires in a row must find a key free.
    uncontended: u32,
    /// For each contended key, how many such acquires are missing.
    ///
    /// Nothing is asked, awaited or woken under this mutex. The names are copies, because they outlive the requests.
    keys: Mutex<Keyed<u32, String>>,
}

impl Contention {
    /// Nothing is known yet of these nodes.
    pub(crate) fn over(nodes: usize) -> Self {
        let uncontended = if nodes > 1 { UNCONTENDED } else { UNCONTENDED_ALONE };
        Self { round_nanos: AtomicU64::default(), uncontended, keys: Mutex::default() }
    }

    /// A granted round took this long; recent ones count most.
    pub(crate) fn took(&self, round: Duration) {
        let new = u64::try_from(round.as_nanos()).unwrap_or(u64::MAX);
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

    /// Some round trips, within bounds.
    pub(crate) fn rounds(&self) -> Duration {
        self.measured().unwrap_or_default().clamp(LEAST, LONGEST)
    }

    /// Some round trips, as measured here; `None` before the first.
    pub(crate) fn measured(&self) -> Option<Duration> {
        let nanos = self.round_nanos.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos) * ROUNDS)
    }

    /// Notes whether others were there first when these keys were acquired.
    pub(crate) fn note(&self, keys: &[String], contended: bool) {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > MOST {
            // All of them: to know the oldest would cost every acquire more than it is worth.
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
    }

    /// How long to let others go first. A client that releases and asks again at once would always win. Its acquire
    /// follows its own release on the same connection, while the others are still being notified.
    ///
    /// The knowledge is local, and ends once enough acquires in a row found the keys free at once. With one over
    /// several nodes, the slowest hundredth of 8 processes over 5 nodes waited 6 times the fair share. With eight it
    /// waited 2.6 times the fair share, for 14 % fewer handoffs (`bench/waits.py contend`).
    pub(crate) fn yield_delay(&self, keys: &[String]) -> Option<Duration> {
        let known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        // Without any contention no key is even hashed.
        let wanted = !known.is_empty() && keys.iter().any(|key| known.contains_key(key));
        wanted.then(|| self.pause())
    }

    /// For how long others go first.
    pub(crate) fn pause(&self) -> Duration {
        // At random: two who stepped back together must not come back together.
        jittered(self.rounds())
    }

    /// Within what time of its release a lock is taken again, and after how long of that others are to have a chance;
    /// `None` before the first round.
    pub(crate) fn takes_again(&self) -> Option<(Duration, Duration)> {
        self.measured().map(|rounds| (rounds.max(LEAST), self.rounds() * SHARE))
    }
}
