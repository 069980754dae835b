//! How a lease is acquired: it joins the local queue, then runs rounds of votes until one is granted or `wait` is over.
//!
//! [`attempt`] is the loop, and [`mod@round`] runs one round. Acquires wait in the [`queue`] (callers of this process) and
//! for the delays of [`retry`], which also decides when to give up. `fairness` decides which client tries first. [`attach`]
//! continues a lease that is already held.
//!
//! `node` sends the requests, `quorum` counts the replies, and `lease` keeps the lease afterwards. Nothing here spawns
//! a task or depends on a runtime. Dropping the future of an acquire ends the whole acquire. The drop also sends
//! deletes, which follow the votes on the same connections.

mod attempt;
mod queue;
mod request;
mod retry;
mod round;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::lease::{ExtendRound, Lease, Leases, Owner, State, Verdict};
use crate::lock::options::Request;
use crate::node::{Claim, Fencing, VoteParams};
use crate::quorum::Validity;
use crate::telemetry::{Spans, log, metrics};
use attempt::Attempt;

pub(crate) use attempt::Wait;
pub use request::NOT_REENTRANT;
pub(crate) use round::Acquirer;

/// Acquires the lease within `wait`. If an owner waits for its own lock, the error reports that.
///
/// Dropping the future lets the next caller in the queue continue and leaves no key behind.
pub(crate) fn acquire<'a>(
    acquirer: &'a Acquirer,
    request: &'a Arc<Request>,
    wait: Wait,
    owner: Option<Owner>,
) -> impl Future<Output = Result<Lease>> + 'a {
    let mut attempt = Attempt::new(request, acquirer, wait, owner);
    async move {
        let outcome = if attempt.tries { attempt.try_once().await } else { attempt.run().await };
        report(&attempt, &outcome);
        outcome
    }
}

/// Turns the result of an acquire that never waits: `None` if the lock is held.
pub(crate) fn none_if_held(outcome: Result<Lease>) -> Result<Option<Lease>> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Reports the end of an acquire to the statistics, the metrics, the log and the spans.
fn report(attempt: &Attempt<'_>, outcome: &Result<Lease>) {
    let Attempt { acquirer, started, spans, tries, .. } = attempt;
    let counts = &acquirer.leases.counts;
    // Measured until the granted round began. Every acquire takes one round, so that round is not part of the wait.
    let waited = match outcome {
        _ if *tries => Duration::ZERO,
        Ok(lease) => lease.acquired().since(*started),
        Err(error) => error.waited().unwrap_or_default(),
    };
    let word = match outcome {
        Ok(_) => {
            counts.granted(waited);
            "granted"
        }
        Err(error) if *tries && error.kind() == ErrorKind::Timeout => {
            counts.refused();
            "refused"
        }
        Err(error) => {
            counts.failed(error);
            error.code()
        }
    };
    metrics::waited(word, || acquirer.clock().now().since(*started));
    if let Ok(lease) = outcome {
        let state = lease.state();
        log::event!(
            Debug, Acquire, in spans.log_context(), {
                key: state.key(), token: state.token_prefix(), ttl_ms: state.ttl(), waited_ms: waited,
            },
            "granted"
        );
        // Later events belong to the span of the lease.
        state.keep_spans(spans.hold(|| state.key(), state.token_prefix()));
    }
    spans.note(word, waited);
}

/// Continues the lease of `claim`, if the nodes still have it. `is_closed` is called right before the lease is returned.
///
/// No vote is needed. An extend round checks whether the token still owns its keys. It creates no key, so a wrong token
/// acquires nothing. The restart guard does not apply, because a node that lost the lease reports a missing key.
pub(crate) async fn attach(
    request: &Arc<Request>,
    claim: &Claim,
    leases: &Arc<Leases>,
    is_closed: impl Fn() -> bool,
) -> Result<Lease> {
    request.connect(&leases.nodes).await?;
    // Subscribes before the first request. Otherwise a release by another lease of this client would be missed.
    let interest = leases.watch.subscribe(&request.keys);
    let mark = interest.mark();
    let validity = extended(request, claim, leases).await?;
    // `max_hold` counts from the attach, because the time of the acquire is unknown here.
    let state = State::new(request, (claim.clone(), None, true), validity, Vec::new(), leases);
    // A release of the token may have run after the first round. The second round is ordered after it, and any later
    // release finds this lease. A holder that only renewed its lease does no harm. Until here, dropping the lease ends it
    // without a report, and without a delete: its keys belong to the first holder.
    if interest.mark() != mark {
        state.confirm(extended(request, claim, leases).await?);
    }
    if is_closed() {
        return Err(Error::closed(&request.key()));
    }
    if !state.is_held() {
        return Err(state.why_over());
    }
    state.keep_spans(Spans::attached(|| state.key(), state.token_prefix()));
    Ok(Lease::new(state))
}

/// Runs one extend round under the token, like a renewal of the lease. Returns the new validity.
async fn extended(request: &Request, claim: &Claim, leases: &Leases) -> Result<Validity> {
    let (nodes, timeout) = (&leases.nodes, request.node_timeout());
    let clock = &*nodes.clock;
    let validity = request.validity(clock.now());
    let params = VoteParams::later(validity.asked, timeout, Fencing::Off);
    let mut round = ExtendRound::send(nodes, claim, validity, params);
    match round.verdict(clock).await {
        // A confirmation after the end of its validity does not count.
        Verdict::Extended if clock.now() < validity.ends() => Ok(validity),
        Verdict::Gone(reason) => Err(Error::lost(&request.key(), reason, Duration::ZERO)),
        _ => Err(request.no_quorum(nodes, &round.votes, timeout)),
    }
}
