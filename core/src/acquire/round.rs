//! Runs one round of an acquire: sends the requests, counts the votes, and grants the lease if a quorum voted for it in
//! time.
//!
//! The caller ([`super::attempt`]) decides which node gets the first request and when to give up. [`VoteRound`] sends,
//! counts and rolls back. Dropping a round at any await leaves no key behind.

use super::acquirer::Acquirer;
use super::fencing;
use super::refusal::Refusal;
use super::request::Request;
use super::vote_round::VoteRound;
use crate::clock::Instant;
use crate::lease::{Lease, State};
use crate::node::{Expect, Taken, Vote, VoteParams};

/// How one round ended.
pub(crate) enum Round {
    /// With the lease.
    Granted(Lease),
    /// Without one.
    Refused(Refusal),
}

/// Waits for the connections that a single round needs, because its deadline begins with them. Returns why there are
/// none.
pub(crate) async fn connect(request: &Request, acquirer: &Acquirer) -> Result<(), Refusal> {
    let nodes = &acquirer.leases.nodes;
    nodes.connect(&request.keys).await.map_err(|votes| match nodes.permanent(&votes) {
        Some((kind, text)) => Refusal::Permanent(kind, text),
        None => {
            Refusal::Unavailable(nodes.report(&votes, nodes.connect_timeout), nodes.remedy(&votes))
        }
    })
}

/// Runs one round under a new token. It began at `now`. Each vote has a timeout, and the whole round ends at `until`.
///
/// A `thorough` round finds out whether a quorum of nodes replies, even if failed nodes have already decided the vote.
pub(crate) async fn round(
    request: &Request,
    acquirer: &Acquirer,
    (now, until): (Instant, Instant),
    (expect, thorough): (Expect, bool),
) -> Round {
    let nodes = &acquirer.leases.nodes;
    let changes = acquirer.leases.watch.count();
    let clock = &*nodes.clock;
    // `wait` may end before the timeout of a vote.
    let timeout = request.node_timeout().min(until.since(now));
    let ttl = request.asked_ttl();
    let fencing = request.fencing(|| clock.wall_micros());
    let params = VoteParams { ttl, timeout, first: true, check: false, expect, fencing };
    // The scout takes an additional round trip, for which a short TTL over a slow network may leave no time.
    let scout_timeout = acquirer.leases.fairness.rounds().min(timeout);
    // Without this limit, every round of such an acquire would be too late, and it would never leave the queue.
    let scouts = expect == Expect::Contended
        && !thorough
        && nodes.list.len() > 1
        && scout_timeout * 4 <= ttl;
    let mut round = if scouts {
        // Boxed, because it is rarely needed and would enlarge the future of every acquire.
        match Box::pin(VoteRound::scout(nodes, request.claim(), params, now, scout_timeout)).await {
            Ok(round) => round,
            Err((left, taken)) => return Round::Refused(Refusal::Scouted(left, taken)),
        }
    } else {
        VoteRound::open(nodes, request.claim(), params, now)
    };
    round.count(clock).await;
    if thorough && !round.votes.tally.met() {
        // Boxed, because it is rarely needed and would enlarge the future of every acquire.
        let deadline = round.started + timeout;
        Box::pin(round.votes.until_answered(clock, deadline)).await;
    }
    // A missing reply does not count as an outage if `wait` cut the round short.
    nodes.note(&round.votes, Some(timeout).filter(|timeout| *timeout == request.node_timeout()));
    if !round.votes.tally.met() {
        return Round::Refused(refused(request, &round));
    }
    let fencing = request.options.fencing;
    // Done before the validity is checked, because agreeing on a token may take another round trip.
    let fence = if fencing { Box::pin(fencing::agree(&mut round, until)).await } else { None };
    granted(request, acquirer, round, fence, changes)
}

/// Creates the lease that a quorum granted, if its fencing token is final and time is left. `changes` is the number of
/// changes before the round.
fn granted(
    request: &Request,
    acquirer: &Acquirer,
    mut round: VoteRound,
    fence: Option<u64>,
    changes: u64,
) -> Round {
    let leases = &acquirer.leases;
    let now = leases.nodes.clock.now();
    let (validity, took) = (request.validity(round.started), now.since(round.started));
    // A grant without remaining time is not returned.
    if now >= validity.ends() {
        let nodes = leases.nodes.report(&round.votes, round.params.timeout);
        return Round::Refused(Refusal::Late(took, nodes));
    }
    if !still_met(request, &round) {
        return Round::Refused(Refusal::Split { taken: Taken::default(), replied: true });
    }
    if request.options.fencing && fence.is_none() {
        // No other client is known to have the keys, so the next round proposes again.
        return Round::Refused(Refusal::Split { taken: Taken::default(), replied: true });
    }
    // From here on nothing is rolled back and nothing is awaited, so the lease exists before a caller can drop this
    // future.
    let votes = round.keep().unanswered();
    leases.fairness.took(took);
    let params = request.lease_params(round.claim.clone(), round.started, fence);
    let state = State::new(params, validity, leases);
    state.keep_votes(votes);
    leases.watch.check_new(changes, state.keys());
    Round::Granted(Lease::new(state))
}

/// Whether a quorum remains without the servers that were replaced during the round. Such a server may have granted
/// after the holder of the lock extended its lease at the next one.
fn still_met(request: &Request, round: &VoteRound) -> bool {
    let nodes = &round.nodes.list;
    // A single node has no guard, and may lose leases at a failover anyway.
    if nodes.len() == 1 {
        return true;
    }
    let key = request.keys.first().map_or("", String::as_str);
    let granted = |answer: &Option<Result<Vote, _>>| matches!(answer, Some(Ok(Vote::Granted(_))));
    let votes = nodes.iter().zip(&round.votes.answers).filter(|(_, answer)| granted(answer));
    let counted = votes.filter(|(node, _)| node.still_counts(key, round.started)).count();
    counted >= round.votes.tally.quorum()
}

/// Checks first for errors that no retry fixes, then whether the nodes can be asked at all. The result is "held" only
/// if a quorum could report that.
fn refused(request: &Request, round: &VoteRound) -> Refusal {
    if let Some((kind, text)) = round.nodes.permanent(&round.votes) {
        Refusal::Permanent(kind, text)
    } else if round.votes.tally.unavailable() {
        let report = round.nodes.report(&round.votes, round.params.timeout);
        Refusal::Unavailable(report, round.nodes.remedy(&round.votes))
    } else {
        Refusal::of_votes(&round.votes, request.keys.len())
    }
}
