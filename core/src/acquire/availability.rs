//! Whether a quorum of nodes replies for a key, according to the callers of this process that want it.

use std::sync::Arc;

use super::refusal::Refusal;
use crate::clock::Instant;

/// What the last conclusive round for a key found.
pub(super) struct Availability {
    /// When the round ended.
    pub(super) at: Instant,
    /// `None` if a quorum replied.
    pub(super) no_quorum: Option<NoQuorum>,
}

/// A period in which no quorum of nodes replied.
#[derive(Clone)]
pub(super) struct NoQuorum {
    /// The start of its first round.
    pub(super) since: Instant,
    /// What its last round found.
    pub(super) why: Arc<Refusal>,
}

impl Availability {
    /// Continues the period that `earlier` is in, or begins one at `since`, but not before a quorum last replied.
    pub(super) fn lost(
        earlier: Option<&Self>,
        (since, at): (Instant, Instant),
        why: &Arc<Refusal>,
    ) -> Self {
        let since = match earlier {
            Some(Self { no_quorum: Some(period), .. }) => period.since,
            Some(Self { at, no_quorum: None }) => since.max(*at),
            None => since,
        };
        Self { at, no_quorum: Some(NoQuorum { since, why: Arc::clone(why) }) }
    }
}
