//! What an acquire expects of its next round, by what the rounds before it came to.
//!
//! It lives as long as its acquire; what outlives one is in [`super::contention`]. It decides how the nodes are
//! asked, never how their votes are counted.

use std::time::Duration;

use super::backoff::jittered;
use super::pace::FALLBACK;
use super::refusal::Refusal;
use crate::clock::Instant;
use crate::node::Expect;

/// Two end times this close are those of one key, because nodes report whole milliseconds.
const SAME_END: Duration = Duration::from_millis(3);

/// What is known of the lock so far.
pub(super) struct Outlook {
    /// How the lock would be asked for, were it not for [`Outlook::ask`].
    pub(super) expect: Expect,
    /// Rounds that others won.
    /// The first refusal is none: it only shows that there is a race.
    losses: u32,
    /// By when all nodes are asked, whatever one says.
    all_by: Instant,
    /// When the key that the scout named would end.
    /// If the next reply has the same end, no client renews the key.
    scouted: Option<Instant>,
}

impl Outlook {
    /// No other client is known to want the lock.
    pub(super) fn new() -> Self {
        let (all_by, scouted) = (Instant::default(), None);
        // Most locks are free: the way that is cheapest then comes first.
        Self { expect: Expect::Free, losses: 0, all_by, scouted }
    }

    /// How to ask now. Under contention, the scout is asked before the others, but all of them from time to time. The
    /// scout may be the only node with a key, left by a dead client or another library.
    pub(super) fn ask(&mut self, now: Instant) -> Expect {
        if self.expect == Expect::Contended && now < self.all_by {
            return Expect::Contended;
        }
        // At random: waiters that all ask every node in step would split the votes.
        self.all_by = now + jittered(FALLBACK);
        // What is known of the contention stays: the next round asks its scout again.
        if self.expect == Expect::Contended { Expect::Unknown } else { self.expect }
    }

    /// A round came to nothing: a second question may have been what took too long.
    pub(super) fn expect_less(&mut self) {
        if self.expect == Expect::Free {
            self.expect = Expect::Unknown;
        }
    }

    /// Others want the lock, too. `rounds`: some round trips.
    pub(super) fn note(&mut self, refusal: &Refusal, now: Instant, rounds: Duration) {
        if let Refusal::Scouted(left, _) = refusal {
            self.doubt(*left, now, rounds);
        }
        if matches!(refusal, Refusal::Held(..) | Refusal::Scouted(..) | Refusal::Split { .. }) {
            self.losses += u32::from(self.expect == Expect::Contended);
            self.expect = Expect::Contended;
        }
    }

    /// A key that ends when it did before, or never, is perhaps not the holder's: something has changed, or its
    /// time was over, and this one did not. Then all are asked soon; not at once, for its delete may be a moment
    /// behind.
    fn doubt(&mut self, left: Option<Duration>, now: Instant, rounds: Duration) {
        let ends = left.map(|left| now + left);
        // `since` ends at zero: the larger of the two directions is the distance.
        let near = |one: Instant, two: Instant| one.since(two).max(two.since(one)) <= SAME_END;
        let same = ends.zip(self.scouted).is_some_and(|(ends, before)| near(ends, before));
        if ends.is_none() || same {
            self.all_by = self.all_by.min(now + rounds);
        }
        self.scouted = ends;
    }

    /// Whether it has not lost a race yet: those that have ask first.
    pub(super) fn is_newcomer(&self) -> bool {
        self.losses == 0
    }

    /// How long until all nodes are asked.
    pub(super) fn until_all(&self, now: Instant) -> Duration {
        self.all_by.since(now)
    }
}
