//! The delays between the rounds of an acquire, and which nodes get the first requests.
//! [`super::attempt`] chooses one of the delays by the refusal.
//!
//! A delay applies if no notification arrives: a change of the key ends most delays early (`node::watch`).

use std::time::Duration;

use super::refusal::{Evidence, Refusal};
use crate::clock::{Instant, jittered};
use crate::node::Expect;

/// How long a caller relies on notifications before it tries again without one.
///
/// A notification can be lost with its connection. For a key that expired, the server sends none before it has deleted
/// the key.
pub(super) const FALLBACK: Duration = Duration::from_secs(1);
/// The longest time, if it is noticed soon that notifications no longer arrive. Thousands of callers may wait for keys
/// that are held for long.
const LONGEST_FALLBACK: Duration = Duration::from_secs(10);
/// Between rounds with a split vote on a fast network.
const SPLIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// The longest delay after a split vote, in rounds as long as that one. Requests that are closer together collide.
const SPLIT_ROUNDS: u32 = 4;
/// The maximum of the delay after a split vote, because one slow node can make a round long.
const LONGEST_SPLIT: Duration = Duration::from_millis(400);
/// Between rounds if too few nodes for a quorum send notifications: from a fast handover to a load that a server does
/// not notice.
const UNNOTIFIED_POLL: (Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(100));
/// Between rounds without a quorum of usable nodes. Each round takes votes away from other clients for a while.
const UNAVAILABLE_PAUSES: (Duration, Duration) = (Duration::from_millis(5), FALLBACK);
/// Two end times this close belong to one key, because nodes report whole milliseconds.
const SAME_END: Duration = Duration::from_millis(3);

/// A growing delay with jitter, so that clients that collided do not collide again. It contains the next delay, or zero
/// at first.
#[derive(Default)]
struct Backoff(Duration);

impl Backoff {
    fn delay(&mut self, (first, longest): (Duration, Duration)) -> Duration {
        let full = self.0.clamp(first, longest);
        // Slower than doubling, so that the end of a contention is noticed soon.
        self.0 = full.mul_f64(1.5).min(longest);
        jittered(full)
    }
}

/// Whether a quorum of nodes pushes changes.
#[derive(Clone, Copy)]
pub(super) enum Pushes {
    /// It is also noticed soon if they no longer arrive.
    Checked,
    Unchecked,
    Missing,
}

/// The delays of one acquire. Each grows as long as its cause lasts.
#[derive(Default)]
pub(super) struct Delays {
    split: Backoff,
    /// While another client has the lock, with or without pushes.
    held: Backoff,
    unavailable: Backoff,
}

impl Delays {
    pub(super) fn record_refusal(&mut self, refusal: &Refusal) {
        if !refusal.is_unavailable() {
            self.unavailable = Backoff::default();
        }
        if !refusal.is_divided() {
            self.split = Backoff::default();
        }
    }

    /// `round_ms` is how long the split round took.
    pub(super) fn after_split(&mut self, round_ms: u32) -> Duration {
        let (first, longest) = SPLIT;
        let round = Duration::from_millis(round_ms.into());
        let rounds = (round * SPLIT_ROUNDS).min(LONGEST_SPLIT);
        self.split.delay((first, longest.max(rounds)))
    }

    pub(super) fn while_unavailable(&mut self) -> Duration {
        self.unavailable.delay(UNAVAILABLE_PAUSES)
    }

    /// The delay until the holder's TTL ends, or until the next request without a notification.
    pub(super) fn until_free(&mut self, free: Option<Duration>, pushes: Pushes) -> Duration {
        let ask = match pushes {
            Pushes::Checked => self.held.delay((FALLBACK, LONGEST_FALLBACK)),
            Pushes::Unchecked => self.held.delay((FALLBACK, FALLBACK)),
            Pushes::Missing => self.held.delay(UNNOTIFIED_POLL),
        };
        // A node reports whole milliseconds and expires the key slightly later. The jitter also keeps clients that know
        // the same end from trying at once.
        let ends = free.map(|free| free + jittered(Duration::from_millis(4)));
        ends.map_or(ask, |ends| ends.min(ask))
    }
}

/// How an acquire runs its next round, according to its previous rounds.
///
/// It decides which nodes get the first requests, never how their votes are counted. Most locks are free, so the first
/// round is the cheapest one for a free lock.
#[derive(Default)]
pub(super) struct RoundPlan {
    pub(super) expect: Expect,
    /// The number of rounds that other clients won. The first refusal does not count: it only shows that there is a
    /// race.
    losses: u32,
    /// When all nodes must get a request, whatever the scout reports.
    all_by: Instant,
    /// When the key that the scout reported ends. If the next reply has the same end, no client renews the key.
    scouted: Option<Instant>,
}

impl RoundPlan {
    /// Returns how to run the next round. Under contention, the scout gets its request before the others, but from time
    /// to time all nodes get theirs at once. The scout may be the only node with a key, left by a dead client or
    /// another library.
    pub(super) fn next_round(&mut self, now: Instant) -> Expect {
        if self.expect == Expect::Contended && now < self.all_by {
            return Expect::Contended;
        }
        // With jitter, because callers that request all votes at the same time would split them.
        self.all_by = now + jittered(FALLBACK);
        // The expectation stays, so the next round uses a scout again.
        if self.expect == Expect::Contended { Expect::Unknown } else { self.expect }
    }

    /// Called after a failed round: the second request of the cheapest kind may have caused the delay.
    pub(super) fn expect_less(&mut self) {
        if self.expect == Expect::Free {
            self.expect = Expect::Unknown;
        }
    }

    /// Records a refusal. `rounds` is the time of some round trips.
    pub(super) fn record_refusal(&mut self, refusal: &Refusal, now: Instant, rounds: Duration) {
        if let Refusal::Held { refused, evidence: Evidence::Scout } = refusal {
            self.doubt_scout(refused.left, now, rounds);
        }
        if matches!(refusal, Refusal::Held { .. } | Refusal::Split) {
            self.losses += u32::from(self.expect == Expect::Contended);
            self.expect = Expect::Contended;
        }
    }

    /// If a key has no end, or the same end as before, it may not belong to the holder: a caller tries again because
    /// the key changed or expired, and this one did not. Then all nodes get a request soon. Not at once, because the
    /// key's delete may be about to arrive.
    fn doubt_scout(&mut self, left: Option<Duration>, now: Instant, rounds: Duration) {
        let ends = left.map(|left| now + left);
        // `since` ends at zero: the larger of the two directions is the distance.
        let near = |one: Instant, two: Instant| one.since(two).max(two.since(one)) <= SAME_END;
        let same = ends.zip(self.scouted).is_some_and(|(ends, before)| near(ends, before));
        if ends.is_none() || same {
            self.all_by = self.all_by.min(now + rounds);
        }
        self.scouted = ends;
    }

    /// Whether it has not lost a race yet. Callers that have lost one try first.
    pub(super) fn is_newcomer(&self) -> bool {
        self.losses == 0
    }

    /// The delay after a scout's reply. It ends when all nodes must get a request.
    pub(super) fn until_all(&self, free: Duration, now: Instant) -> Duration {
        // Never zero, or a caller would send requests without a delay.
        free.min(self.all_by.since(now).max(SPLIT.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_votes_are_repeated_after_up_to_some_rounds() {
        for (round_ms, longest_ms) in [(0, 50), (10, 50), (40, 160), (1_000, 400)] {
            let mut delays = Delays::default();
            let all: Vec<_> = (0..30).map(|_| delays.after_split(round_ms)).collect();
            let longest = Duration::from_millis(longest_ms);
            assert!(all[0] <= Duration::from_millis(1), "{all:?}");
            assert!(
                all[20..].iter().all(|delay| (longest / 2..=longest).contains(delay)),
                "{all:?}"
            );
            delays.record_refusal(&Refusal::Queued);
            assert!(delays.after_split(round_ms) <= Duration::from_millis(1));
        }
    }
}
