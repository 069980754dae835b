//! How a lease is acquired: it joins the local queue, then runs rounds of votes until one is granted or `wait` is over.
//!
//! [`attempt`] is the loop, [`mod@round`] runs one round, and [`vote_round`] collects its votes. Acquires wait in the
//! [`queue`] (callers of this process) and for the delays of [`retry`], which also decides when to give up.
//! [`wait_log`] logs waits. `fairness` decides which client tries first.
//!
//! `node` sends the requests, `quorum` counts the replies, and `lease` keeps the lease afterwards. Nothing here spawns
//! a task or depends on a runtime. Dropping the future of an acquire ends the whole acquire. The drop also sends
//! deletes, which follow the votes on the same connections.

mod acquirer;
mod attach;
mod attempt;
mod fencing;
mod queue;
mod refusal;
mod request;
mod retry;
mod round;
#[cfg(test)]
mod tests;
mod vote_round;
mod wait_log;

use std::time::Duration;

use crate::clock::{Instant, NEVER};
use crate::error::{Error, Result};
use crate::lease::{Lease, Owner};
use crate::node::Expect;
use crate::telemetry::{Spans, log, metrics};
use attempt::Attempt;
use round::{Round, connect, round};

pub(crate) use acquirer::Acquirer;
pub(crate) use attach::attach;
pub(crate) use fencing::{check_lock_key, fence_key};
pub use refusal::NOT_REENTRANT;
pub(crate) use request::Request;

/// Acquires the lease. Without a `wait` it waits forever, and with zero it runs one round. If an owner waits for its
/// own lock, the error reports that.
///
/// Dropping the future lets the next caller in the queue continue and leaves no key behind.
pub(crate) fn acquire<'a>(
    acquirer: &'a Acquirer,
    request: &'a Request,
    wait: Option<Duration>,
    owner: Option<Owner>,
) -> impl Future<Output = Result<Lease>> + 'a {
    let mut attempt = Attempt::new(request, acquirer, wait, owner);
    async move {
        let outcome = attempt.run().await;
        let Attempt { acquirer, started, wait_log, .. } = &attempt;
        // Measured until the granted round began. Every acquire takes one round, so that round is not part of the wait.
        let waited = match &outcome {
            Ok(lease) => lease.acquired().since(*started),
            Err(error) => error.waited().unwrap_or_default(),
        };
        report(acquirer, &wait_log.spans, *started, outcome.as_ref().map(Some), waited);
        outcome
    }
}

/// Runs one round without waiting. Returns `None` if the lock is held, or if another caller in this process waits for
/// it.
pub(crate) async fn try_acquire(acquirer: &Acquirer, request: &Request) -> Result<Option<Lease>> {
    let started = metrics::started(acquirer.clock());
    let spans = Spans::acquire(|| request.key());
    // Joins the queue like every caller, so that it does not overtake a waiting one.
    let ticket = acquirer.queue.join(&request.keys);
    let outcome = if ticket.has_turn() { ask_once(acquirer, request).await } else { Ok(None) };
    report(acquirer, &spans, started, outcome.as_ref().map(Option::as_ref), Duration::ZERO);
    outcome
}

/// Runs the round of [`try_acquire`].
async fn ask_once(acquirer: &Acquirer, request: &Request) -> Result<Option<Lease>> {
    let refusal = match connect(request, acquirer).await {
        Ok(()) => {
            let now = acquirer.clock().now();
            // One command instead of the cheap pair. A refusal is likely here, and then takes one round trip.
            match round(request, acquirer, (now, NEVER), (Expect::Unknown, false)).await {
                Round::Granted(lease) => return Ok(Some(lease)),
                Round::Refused(refusal) => refusal,
            }
        }
        Err(refusal) => refusal,
    };
    refusal.error(request, None).map_or(Ok(None), Err)
}

/// Reports the end of an acquire to the statistics, the metrics, the log and the spans. `None` means that the lock is
/// held.
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
        state.keep_spans(spans.hold(|| state.key(), state.token_prefix()));
    }
    spans.note(word, waited);
}
