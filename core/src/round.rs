//! One round of an acquire: ask, count, and say what it came to.

use std::sync::Arc;
use std::time::Duration;

use crate::ballot::Ballot;
use crate::clock::Instant;
use crate::error::NodeReport;
use crate::fence;
use crate::lease::Lease;
use crate::live::Live;
use crate::lock::Lock;
use crate::node::{Ask, Fencing, Taken, Vote};
use crate::quorum::Poll;

/// How likely the lock is free, which decides how it is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Odds {
    /// Nobody is known to want it: in the cheapest way, though it takes a second question where somebody has it.
    Good,
    /// In one question.
    Unknown,
    /// Others want it: one node before the others.
    Poor,
}

/// How one round ended.
pub(crate) enum Round {
    Granted(Lease),
    Refused(Refusal),
}

/// Why there is no lease yet.
pub(crate) enum Refusal {
    /// Callers of this process were here first.
    Queued,
    /// Others have these of its keys; perhaps free after this long, `None`: without a known end.
    Held(Option<Duration>, Taken),
    /// The same, but by the word of one node, which was asked first.
    Scouted(Option<Duration>, Taken),
    /// Nobody got a quorum; these keys could not be had.
    Split(Taken),
    /// A quorum granted, but answers took this long, by when a lease that began with the question was over.
    Late(Duration, Vec<NodeReport>),
    Unavailable(Vec<NodeReport>),
    /// A node says that the caller's own options are wrong.
    Invalid(String),
}

impl Refusal {
    /// The keys that others have: those that this refusal makes its caller wait for. Of one key there is no question,
    /// unless the nodes could not even say no.
    pub(crate) fn taken(&self, keys: usize) -> Taken {
        match self {
            Self::Held(_, taken) | Self::Scouted(_, taken) | Self::Split(taken) => {
                if keys == 1 {
                    [0].into_iter().collect()
                } else {
                    *taken
                }
            }
            Self::Queued | Self::Late(..) | Self::Unavailable(_) | Self::Invalid(_) => {
                Taken::default()
            }
        }
    }
}

/// One round under a token of its own. Each vote has its deadline, and the whole round `until`.
pub(crate) async fn round(lock: &Lock, live: &Arc<Live>, until: Instant, odds: Odds) -> Round {
    let options = &lock.options;
    let patience = options.node_timeout().min(until.since(live.quorum.clock.now()));
    let ttl = lock.asked_ttl();
    let fencing = if options.fencing {
        Fencing::Propose(live.quorum.clock.wall_micros())
    } else {
        Fencing::Off
    };
    let ask = Ask { ttl, patience, first: true, likely: odds == Odds::Good, fencing };
    // The scout costs a round trip more, which a short ttl over a slow network may not have.
    let scout = live.contention.rounds().min(patience);
    let mut ballot = if odds == Odds::Poor && live.quorum.nodes.len() > 1 && scout * 4 <= ttl {
        match Ballot::scout(&live.quorum, lock.claim(), ask, scout).await {
            Ok(ballot) => ballot,
            Err((left, taken)) => return Round::Refused(Refusal::Scouted(left, taken)),
        }
    } else {
        Ballot::open(&live.quorum, lock.claim(), ask)
    };
    let tally = ballot.count().await;
    if tally.met() {
        let fence =
            if options.fencing { fence::settle(&mut ballot, ask, until).await } else { None };
        // A grant that took so long that nothing is left of it is never handed out.
        if live.quorum.clock.now() >= ballot.validity_ends() {
            let took = live.quorum.clock.now().since(ballot.started);
            let nodes = live.quorum.report(&ballot.votes, patience);
            return Round::Refused(Refusal::Late(took, nodes));
        }
        if options.fencing && fence.is_none() {
            return Round::Refused(Refusal::Split(Taken::default()));
        }
        let votes = ballot.keep();
        live.contention.took(live.quorum.clock.now().since(ballot.started));
        let terms = lock.terms(ballot.claim.clone(), ballot.started, fence);
        let end = (ballot.validity_ends(), options.ttl, ttl < options.ttl);
        let state = live.lease(terms, end);
        state.keep_votes(votes);
        return Round::Granted(Lease::new(state));
    }
    Round::Refused(if let Some(text) = live.quorum.invalid(&ballot.votes) {
        Refusal::Invalid(text)
    } else if tally.unavailable() {
        Refusal::Unavailable(live.quorum.report(&ballot.votes, patience))
    } else {
        let taken = taken_in(&ballot.votes, lock.keys.len());
        match free_in(&ballot.votes) {
            Some(left) => Refusal::Held(left, taken),
            None => Refusal::Split(taken),
        }
    })
}

/// The keys that so many nodes refused that no quorum is left for them.
fn taken_in(votes: &Poll<Vote>, keys: usize) -> Taken {
    let spare = votes.answers.len() - votes.tally.quorum();
    let clean = votes.answers.iter().flatten().flatten();
    let refused = |at: &usize| {
        let refuses = |vote: &&Vote| matches!(vote, Vote::Held(_, taken) if taken.has(*at));
        clean.clone().filter(refuses).count() > spare
    };
    (0..keys.min(64)).filter(refused).collect()
}

/// When a quorum may be free by the holders' own ttls; the inner `None` is without a known end.
/// `None`: the nodes that refused are too few to keep a quorum from being free right now.
fn free_in(votes: &Poll<Vote>) -> Option<Option<Duration>> {
    let clean = votes.answers.iter().flatten().flatten();
    let mut held: Vec<_> = clean
        .filter_map(|vote| match vote {
            Vote::Held(left, _) => Some(left.unwrap_or(Duration::MAX)),
            Vote::Granted(_) => None,
        })
        .collect();
    held.sort_unstable();
    let spare = votes.answers.len() - votes.tally.quorum();
    let decisive = held.len().checked_sub(spare + 1)?;
    let left = held[decisive];
    Some((left != Duration::MAX).then_some(left))
}
