//! How long to wait before the nodes are asked again.
//!
//! A pause is only how long to rely on being told: a change of the key ends most of them early (`node::watch`).

use std::time::Duration;

use super::backoff::{Backoff, jittered};
use super::refusal::Refusal;

/// How long a waiter relies on being told before it asks anyway.
///
/// A push can be lost with its connection, and for a key that expired none comes before the server has really
/// deleted it.
pub(super) const FALLBACK: Duration = Duration::from_secs(1);
/// Between rounds that votes were split over: some round-trip times, growing while the contention lasts.
const SPLIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Between rounds where no node can tell of a change.
/// From a fast handover up to what a server does not notice.
const POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Between rounds that came to nothing: each takes votes away from others for a while.
const USELESS: (Duration, Duration) = (Duration::from_millis(5), FALLBACK);

/// The delays of one acquire, each growing for as long as its cause lasts.
pub(super) struct Pace {
    /// After rounds with a split vote.
    split: Backoff,
    /// While another client holds it and no server pushes the release.
    poll: Backoff,
    /// While too few nodes answer.
    useless: Backoff,
}

impl Pace {
    /// All as short as they get.
    pub(super) fn new() -> Self {
        Self {
            split: Backoff::new(SPLIT.0),
            poll: Backoff::new(POLL.0),
            useless: Backoff::new(USELESS.0),
        }
    }

    /// Resets the delays of causes that have ended.
    pub(super) fn note(&mut self, refusal: &Refusal) {
        if !refusal.is_unavailable() {
            self.useless = Backoff::new(USELESS.0);
        }
        if !matches!(refusal, Refusal::Split { .. }) {
            self.split = Backoff::new(SPLIT.0);
        }
    }

    /// After a split vote.
    pub(super) fn after_split(&mut self) -> Duration {
        self.split.delay(SPLIT.1)
    }

    /// While the nodes are of no use.
    pub(super) fn while_useless(&mut self) -> Duration {
        self.useless.delay(USELESS.1)
    }

    /// The delay until the holder's TTL ends, or until the next request without a notification. `told`: a quorum of
    /// nodes pushes.
    pub(super) fn until_free(&mut self, free: Option<Duration>, told: bool) -> Duration {
        let ask = if told { jittered(FALLBACK) } else { self.poll.delay(POLL.1) };
        // A node reports whole milliseconds and expires the key slightly later. The jitter also keeps clients that
        // know the same end from asking at once.
        let ends = free.map(|free| free + jittered(Duration::from_millis(4)));
        ends.map_or(ask, |ends| ends.min(ask))
    }

    /// By the scout's word: also until all nodes are to be asked.
    pub(super) fn until_all(free: Duration, all: Duration) -> Duration {
        // Never at once, even if it is time already: it would ask again without a pause.
        free.min(all.max(SPLIT.0))
    }
}
