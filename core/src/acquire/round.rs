//! One round of an acquire: ask, count, and say what it came to.

use super::acquirer::Acquirer;
use super::fencing;
use super::refusal::Refusal;
use super::request::Request;
use super::vote_round::VoteRound;
use crate::clock::Instant;
use crate::lease::{Lease, State};
use crate::node::{Expect, Taken, VoteParams};

/// How one round ended.
pub(crate) enum Round {
    /// With the lease.
    Granted(Lease),
    /// Without one.
    Refused(Refusal),
}

/// One round under a token of its own. Each vote has its deadline, and the whole round `until`.
pub(crate) async fn round(
    request: &Request,
    acquirer: &Acquirer,
    until: Instant,
    expect: Expect,
) -> Round {
    let nodes = &acquirer.leases.nodes;
    let clock = &*nodes.clock;
    let timeout = request.node_timeout().min(until.since(clock.now()));
    let ttl = request.asked_ttl();
    let fencing = request.fencing(|| clock.wall_micros());
    let params = VoteParams { ttl, timeout, first: true, expect, fencing };
    // The scout costs a round trip more, which a short ttl over a slow network may not have.
    let patience = acquirer.contention.rounds().min(timeout);
    let scouts = expect == Expect::Contended && nodes.list.len() > 1 && patience * 4 <= ttl;
    let mut round = if scouts {
        match VoteRound::scout(nodes, request.claim(), params, patience).await {
            Ok(round) => round,
            Err((left, taken)) => return Round::Refused(Refusal::Scouted(left, taken)),
        }
    } else {
        VoteRound::open(nodes, request.claim(), params)
    };
    if round.count().await.met() {
        granted(request, acquirer, round, until).await
    } else {
        Round::Refused(refused(request, &round))
    }
}

/// A lease on what a quorum granted, if its fencing token stands and there is something left of it.
async fn granted(
    request: &Request,
    acquirer: &Acquirer,
    mut round: VoteRound,
    until: Instant,
) -> Round {
    let (leases, fencing) = (&acquirer.leases, request.options.fencing);
    let clock = &*leases.nodes.clock;
    let fence = if fencing { fencing::agree(&mut round, until).await } else { None };
    let validity = request.validity(round.started);
    // A grant that took so long that nothing is left of it is never handed out.
    if clock.now() >= validity.ends() {
        let took = clock.now().since(round.started);
        let nodes = leases.nodes.report(&round.votes, round.params.timeout);
        return Round::Refused(Refusal::Late(took, nodes));
    }
    if fencing && fence.is_none() {
        return Round::Refused(Refusal::Split(Taken::default()));
    }
    let votes = round.keep();
    acquirer.contention.took(clock.now().since(round.started));
    let params = request.lease_params(round.claim.clone(), round.started, fence);
    let state = State::new(params, validity, leases);
    state.keep_votes(votes);
    Round::Granted(Lease::new(state))
}

fn refused(request: &Request, round: &VoteRound) -> Refusal {
    if let Some(text) = round.nodes.invalid(&round.votes) {
        Refusal::Invalid(text)
    } else if round.votes.tally.unavailable() {
        Refusal::Unavailable(round.nodes.report(&round.votes, round.params.timeout))
    } else {
        Refusal::of_votes(&round.votes, request.keys.len())
    }
}
