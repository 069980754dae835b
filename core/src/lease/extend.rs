//! The extend round and its one verdict: renewals, checks, `extend`, `attach` and fencing all ask this way.
//!
//! It takes the answers of an extend for votes: a quorum of them moves the deadline, a quorum's lack of them
//! ends the lease, and anything between changes nothing. When to ask is its callers' to know.

use std::sync::Arc;
use std::time::Duration;

use super::phase::Phase;
use super::state::State;
use super::validity::Validity;
use crate::clock::{Clock, Instant};
use crate::error::{Error, LossReason, Result};
use crate::node::{Claim, Extension, Fencing, VoteParams};
use crate::quorum::{Collect, Nodes};

/// What the nodes' answers mean for the lease.
#[derive(Clone, Copy)]
pub(crate) enum Verdict {
    /// A quorum has it, for as long as was asked.
    Extended,
    /// So many nodes said that they have it no more that no quorum is left.
    Gone(LossReason),
    /// Neither: too many gave no answer. Time alone ends the lease.
    Unknown,
}

/// An extend round under way.
pub(crate) struct ExtendRound {
    /// The nodes' answers.
    pub(crate) votes: Collect<Extension>,
    /// After this long silence is a fault.
    timeout: Duration,
    /// What it makes of the lease, if a quorum confirms it.
    pub(crate) validity: Validity,
    /// It makes nothing of it: it only asks.
    check: bool,
}

impl ExtendRound {
    /// Asks every node, now.
    pub(crate) fn send(
        nodes: &Nodes,
        claim: &Claim,
        validity: Validity,
        timeout: Duration,
        fencing: Fencing,
    ) -> Self {
        Self::of(nodes, claim, validity, VoteParams::later(validity.asked, timeout, fencing))
    }

    /// The same, where it may be a check.
    fn of(nodes: &Nodes, claim: &Claim, validity: Validity, params: VoteParams) -> Self {
        let VoteParams { timeout, check, .. } = params;
        Self { votes: nodes.extend(claim, params), timeout, validity, check }
    }

    /// By when its answers count.
    ///
    /// Counted from where the validity counts: answers that are late by this are no use to it either.
    pub(crate) fn until(&self) -> Instant {
        self.validity.started + self.timeout
    }

    /// Listens until a quorum confirmed, else to every answer that comes in time: one dead node must not hide that all
    /// who live say no.
    pub(crate) async fn verdict(&mut self, clock: &dyn Clock) -> Verdict {
        let until = self.until();
        self.votes.until_judged(clock, until).await;
        if self.votes.tally.met() {
            Verdict::Extended
        } else if self.votes.tally.denied() {
            Verdict::Gone(self.loss_reason())
        } else {
            Verdict::Unknown
        }
    }

    /// Whether a quorum confirmed, for whoever need not know why not: listens no longer than it still can.
    pub(crate) async fn is_confirmed(&mut self, clock: &dyn Clock, until: Instant) -> bool {
        let until = until.min(self.until());
        self.votes.until_decided(clock, until).await;
        self.votes.tally.met()
    }

    /// A foreign token explains most, then that some nodes still have it; else the key is simply gone.
    fn loss_reason(&self) -> LossReason {
        let mut answers = self.votes.answers.iter().flatten().flatten();
        if answers.clone().any(|answer| *answer == Extension::Taken) {
            LossReason::Taken
        } else if answers.any(|answer| *answer == Extension::Extended) {
            LossReason::Quorum
        } else {
            LossReason::Missing
        }
    }
}

/// Sends an extend by `ttl` from now, cut at `max_hold`; `None` if the lease is over.
/// What is sent is sent under the lease's lock, so that no extend or heal follows the release.
///
/// Dropped unheard it does no harm: keys may live longer than the lease believes, never the other way round.
pub(crate) fn send(state: &State, ttl: Duration) -> Option<ExtendRound> {
    send_as(state, ttl, false)
}

/// Asks whether the lease is whole, with as much as is left of it: its deadline stays where it is.
pub(crate) fn send_check(state: &State, left: Duration) -> Option<ExtendRound> {
    send_as(state, left, true)
}

/// Either of the two.
fn send_as(state: &State, ttl: Duration, check: bool) -> Option<ExtendRound> {
    let mut phase = state.held_phase()?;
    let validity = Validity::new(state.now(), ttl, state.params.hold_end);
    let (timeout, fencing) = ask(state, &mut phase, validity.asked);
    // What was not even sent of the first votes is asked for by this.
    phase.votes = Vec::new();
    let params = VoteParams { check, ..VoteParams::later(validity.asked, timeout, fencing) };
    Some(ExtendRound::of(&state.leases.nodes, &state.params.claim, validity, params))
}

/// How long the nodes' answers are waited for, and what becomes of the fencing token: whatever is asked for a lease
/// that is ours keeps it from being forgotten.
///
/// A frozen node is waited for so briefly that the renewal after this one comes in time, also where the ttl was
/// shortened below what `node_timeout` was made for.
fn ask(state: &State, phase: &mut Phase, ttl: Duration) -> (Duration, Fencing) {
    // Before the answer, which may be lost: a delete that is owed must be owed for as long as the keys can
    // live.
    phase.longest = phase.longest.max(ttl);
    (state.params.node_timeout.min(phase.ttl / 5), Fencing::keep(state.params.fence))
}

/// Waits for the verdict, and does to the lease what it says.
pub(crate) async fn judge(state: &State, round: &mut ExtendRound) -> Verdict {
    let nodes = &state.leases.nodes;
    let verdict = round.verdict(&*nodes.clock).await;
    nodes.note(&round.votes, Some(round.timeout));
    match verdict {
        // The lease may have ended while the nodes were asked: then it stays so, whatever they answered.
        Verdict::Extended if !round.check => state.confirm(round.validity),
        Verdict::Gone(reason) => state.lose(reason),
        Verdict::Extended | Verdict::Unknown => {}
    }
    verdict
}

/// Makes the lease last `ttl` from when it was `sent`, and renewals ask for that.
pub(crate) async fn extend(state: Arc<State>, sent: Option<ExtendRound>) -> Result<()> {
    let Some(mut round) = sent else {
        return Err(state.why_over());
    };
    match judge(&state, &mut round).await {
        Verdict::Extended => {
            let Some(mut phase) = state.held_phase() else { return Err(state.why_over()) };
            // Only now: a longer ttl that was never confirmed would have renewals come too late for the keys
            // that there are.
            phase.ttl = round.validity.wanted;
            Ok(())
        }
        Verdict::Gone(_) => Err(state.why_over()),
        // Given back meanwhile: that is why nobody confirmed.
        Verdict::Unknown if !state.is_held() => Err(state.why_over()),
        Verdict::Unknown => {
            let nodes = state.leases.nodes.report(&round.votes, round.timeout);
            Err(Error::unavailable(&state.key(), "not extended", nodes))
        }
    }
}

/// Gives the lease back to nodes that lacked it in both rounds, of which each showed that a quorum has it.
///
/// Two rounds, a moment apart: put back at once, a key would outlive a delete that is on its way to every node.
/// Nobody listens for the answer: the next renewal sees whether the node has it.
pub(crate) fn heal(state: &State, rounds: [&ExtendRound; 2]) {
    // Kept until all is sent: no heal goes out behind the deletes of a release.
    let Some(mut phase) = state.held_phase() else {
        return;
    };
    let left = phase.deadline.since(state.now());
    let (timeout, fencing) = ask(state, &mut phase, left);
    let params = VoteParams::later(left, timeout, fencing);
    let missing = |round: &ExtendRound, at: usize| {
        matches!(round.votes.answers[at], Some(Ok(Extension::Missing)))
    };
    for (at, node) in state.leases.nodes.list.iter().enumerate() {
        // A node that did not answer, or said "taken", is left alone: only a clean "missing" is ours to fill.
        if rounds.iter().all(|round| missing(round, at)) {
            drop(node.acquire(&state.params.claim, params));
        }
    }
}
