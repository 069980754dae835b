//! How a lease is acquired: it joins the local queue, then runs rounds of votes until one is granted or `wait` is over.
//!
//! [`attempt`] is the loop, and [`mod@round`] runs one round. Acquires wait in the [`queue`] (callers of this process)
//! and for the delays of [`retry`], until their [`deadline`]. `fairness` decides which client tries first. [`attach`]
//! continues a lease that is already held.
//!
//! `node` sends the requests, `quorum` counts the replies, and `lease` keeps the lease afterwards. Nothing here spawns
//! a task or depends on a runtime. Dropping the future of an acquire ends the whole acquire. The drop also sends
//! deletes, which follow the votes on the same connections.

mod attempt;
mod deadline;
mod line;
mod queue;
mod refusal;
mod request;
mod retry;
mod round;
#[cfg(test)]
mod tests;
mod wait_log;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Instant, NEVER};
use crate::error::{Error, Result};
use crate::lease::{ExtendRound, Lease, LeaseState, Origin, Verdict};
use crate::node::{Claim, Expect, Fencing, VoteParams};
use crate::options::lock::Request;
use crate::quorum::{Nodes, Validity};
use crate::telemetry::{Owner, Spans, log, metrics};
use attempt::{Attempt, MAX_MISSES};
use queue::Ticket;
use refusal::Refusal;
use round::{RoundParams, connect, round};

pub use refusal::NOT_REENTRANT;
pub(crate) use round::Acquirer;

/// Acquires the lease. Without a `wait` it waits forever, and with zero it runs one round. If an owner waits for its
/// own lock, the error reports that.
///
/// Dropping the future lets the next caller in the queue continue and leaves no key behind.
pub(crate) fn acquire<'a>(
    acquirer: &'a Acquirer,
    request: &'a Arc<Request>,
    wait: Option<Duration>,
    owner: Option<Owner>,
) -> impl Future<Output = Result<Lease>> + 'a {
    let mut attempt = Attempt::new(request, acquirer, wait, owner);
    async move {
        let outcome = attempt.run().await;
        let (started, spans) = (attempt.deadline.started, &attempt.spans);
        // Measured until the granted round began. Every acquire takes one round, so that round is not part of the wait.
        let waited = match &outcome {
            Ok(lease) => lease.acquired().since(started),
            Err(error) => error.waited().unwrap_or_default(),
        };
        let reported = match &outcome {
            Err(error) if error.is_remembered() => Ok(None),
            outcome => outcome.as_ref().map(Some),
        };
        report(acquirer, spans, started, reported, waited);
        outcome
    }
}

/// Runs one round without waiting. Returns `None` if the lock is held, or if another caller in this process waits for
/// it.
pub(crate) async fn try_acquire(
    acquirer: &Acquirer,
    request: &Arc<Request>,
) -> Result<Option<Lease>> {
    let started = metrics::started(acquirer.clock());
    let spans = Spans::acquire(|| request.key());
    // Joins the queue like every caller, so that it does not overtake a waiting one.
    let ticket = acquirer.queue.join(&request.identity, request.primitive.share());
    let outcome =
        if ticket.has_turn() { ask_once(acquirer, request, &ticket).await } else { Ok(None) };
    report(acquirer, &spans, started, outcome.as_ref().map(Option::as_ref), Duration::ZERO);
    outcome
}

/// Runs the round of [`try_acquire`].
async fn ask_once(
    acquirer: &Acquirer,
    request: &Arc<Request>,
    ticket: &Ticket,
) -> Result<Option<Lease>> {
    let granted = match connect(request, acquirer).await {
        Ok(()) => ask_all(acquirer, request, ticket).await,
        Err(refusal) => Err(refusal),
    };
    granted.map(Some).or_else(|refusal| refusal.error(request, None).map_or(Ok(None), Err))
}

/// Runs the round, or a few if others had the places of a round and not all places.
async fn ask_all(
    acquirer: &Acquirer,
    request: &Arc<Request>,
    ticket: &Ticket,
) -> Result<Lease, Refusal> {
    let (mut last, mut rounds, begun) = (None, 0, acquirer.clock().now());
    loop {
        let now = acquirer.clock().now();
        // One command instead of the cheap pair. A refusal is likely here, and then takes one round trip.
        let expect = Expect::Unknown;
        let preference = acquirer.preference(request, ticket, last.as_ref());
        let params = RoundParams {
            now,
            until: NEVER,
            expect,
            thorough: false,
            is_cut: false,
            may_repeat: false,
            preference,
            turn: None,
        };
        rounds += 1;
        match round(request, acquirer, params).await {
            Err(missed @ Refusal::Missed { .. })
                if rounds <= MAX_MISSES
                    && acquirer.clock().now().since(begun) < request.node_timeout() =>
            {
                last = Some(missed);
            }
            outcome => return outcome,
        }
    }
}

/// Reports the end of an acquire to the statistics, the metrics, the log and the spans. `None` means that the lock is
/// held, or that a run is remembered.
fn report(
    acquirer: &Acquirer,
    spans: &Spans,
    started: Instant,
    outcome: Result<Option<&Lease>, &Error>,
    waited: Duration,
) {
    let counts = &acquirer.leases.counts;
    let word = match outcome {
        Ok(Some(_)) => {
            counts.granted(waited);
            "granted"
        }
        Ok(None) => {
            counts.refused();
            "refused"
        }
        Err(error) => {
            counts.failed(error);
            error.code()
        }
    };
    metrics::waited(word, || acquirer.clock().now().since(started));
    if let Ok(Some(lease)) = outcome {
        let state = lease.state();
        log::event!(
            Debug, Acquire, in spans.log_context(), {
                key: state.key(), token: state.token_prefix(), ttl_ms: state.ttl(), waited_ms: waited,
            },
            "granted"
        );
        // Later events belong to the span of the lease.
        state.keep_spans(spans.hold_span(|| state.key(), state.token_prefix()));
    }
    spans.record_outcome(word, waited, outcome.err().and_then(Error::holder));
}

/// The maximum number of extend rounds of an attach. Keys that change in each of them do not belong to a single holder.
const TRIES: u32 = 10;

/// Continues the lease of `claim`, if the nodes still have it. `ended` is called right before the lease is returned,
/// and tells why nothing would renew it.
///
/// No vote is needed. An extend round checks whether the token still owns its keys. It creates no key, so a wrong token
/// acquires nothing. The restart guard does not apply, because a node that lost the lease reports a missing key.
pub(crate) async fn attach(
    request: &Arc<Request>,
    claim: &Claim,
    acquirer: &Acquirer,
    ended: impl Fn() -> Option<Error>,
) -> Result<Lease> {
    let Acquirer { leases, nodes, .. } = acquirer;
    request.connect(nodes).await?;
    // Subscribes before the first request. Otherwise a release by another lease of this client would be missed.
    let interest = leases.watch.subscribe(&request.identity);
    for _ in 0..TRIES {
        let mark = interest.mark();
        let validity = extended(request, claim, nodes).await?;
        // `max_hold` counts from the attach, because the time of the acquire is unknown here.
        let origin = Origin { claim: claim.clone(), fence: None, attached: true };
        let state = LeaseState::new(request, origin, validity, Vec::new(), leases, nodes);
        // The client may have been closed, or its monitor may have failed, during the round. Until it is returned, the
        // lease ends without a report and without a delete, because its keys belong to the first holder.
        if let Some(error) = ended() {
            return Err(error);
        }
        if interest.mark() == mark {
            state.keep_spans(Spans::attached(|| state.key(), state.token_prefix()));
            return Ok(Lease::new(state));
        }
        // A release of the token may have run after this request. The next request is ordered after the release.
    }
    Err(request.invalid("its keys changed during every attempt. Check which client holds it"))
}

/// Runs one extend round under the token, like a renewal of the lease. Returns the new validity.
async fn extended(request: &Request, claim: &Claim, nodes: &Arc<Nodes>) -> Result<Validity> {
    let timeout = request.node_timeout();
    let clock = &*nodes.clock;
    let validity = request.validity(clock.now());
    let ttl = validity.key_ttl(&request.options, validity.started);
    let params = VoteParams::later(ttl, timeout, Fencing::Off);
    let mut round = ExtendRound::send(Arc::clone(nodes), claim, validity, params);
    match round.verdict(clock).await {
        // A confirmation after the end of its validity does not count.
        Verdict::Extended if clock.now() < validity.ends() => Ok(validity),
        Verdict::Gone(reason) => Err(Error::not_attached(&request.key(), reason)),
        _ => Err(request.no_quorum(nodes, &round.votes, timeout)),
    }
}
