//! How a lease is acquired: a place in the local queue, then rounds of votes, until one is granted or `wait` is over.
//!
//! [`attempt`] is the loop, [`mod@round`] one turn of it, and [`vote_round`] its votes. Acquires wait in the [`queue`]
//! (callers of this process) and for the delays of [`retry`], which also decides when to give up. [`patience`] logs
//! waits. `fairness` decides which client asks first.
//!
//! `node` sends the requests, `quorum` counts the replies, and `lease` keeps the lease afterwards. Nothing here
//! spawns or names a runtime. These are plain futures, and dropping one drops the whole acquire. The drop also
//! deletes what was sent by then, behind the votes on the same connections.

mod acquirer;
mod attach;
mod attempt;
mod fencing;
mod patience;
mod queue;
mod refusal;
mod request;
mod retry;
mod round;
#[cfg(test)]
mod tests;
mod vote_round;

use std::time::Duration;

use crate::clock::NEVER;
use crate::error::{Error, Result};
use crate::lease::{Lease, Owner};
use crate::log;
use crate::meter::Began;
use crate::node::Expect;
use crate::spans::Spans;
use attempt::Attempt;
use round::{Round, connect, round};

pub(crate) use acquirer::Acquirer;
pub(crate) use attach::attach;
pub(crate) use fencing::{check_lock_key, fence_key};
pub use refusal::NOT_REENTRANT;
pub(crate) use request::Request;

/// Acquires the lease. Without a `wait` it waits without end, and zero is one round. If an owner waits for its own
/// lock, the error reports that.
///
/// Dropping the future gives its place in the line to the next one and leaves no key behind.
pub(crate) fn acquire<'a>(
    acquirer: &'a Acquirer,
    request: &'a Request,
    wait: Option<Duration>,
    owner: Option<Owner>,
) -> impl Future<Output = Result<Lease>> + 'a {
    let mut attempt = Attempt::new(request, acquirer, wait, owner);
    let began = Began::now(acquirer.clock());
    async move {
        let outcome = attempt.run().await;
        let word = outcome.as_ref().map_or_else(Error::code, |_| "granted");
        began.came_to(word, attempt.acquirer.clock());
        // By the attempt: the future is smaller by what it need not keep twice.
        let (counts, spans) = (&attempt.acquirer.leases.counts, &attempt.patience.spans);
        match &outcome {
            // Until the round began: its own time is that of every lock, however free it is.
            Ok(lease) => {
                let waited = lease.acquired().since(attempt.started);
                counts.granted(waited);
                granted(lease, spans, waited);
            }
            Err(error) => {
                counts.failed(error);
                spans.note(error.code(), error.waited().unwrap_or_default());
            }
        }
        outcome
    }
}

/// Logs the grant, and links later events to the lease.
fn granted(lease: &Lease, spans: &Spans, waited: Duration) {
    let state = lease.state();
    log::event!(
        Debug, Acquire, in spans.place(), {
            key: state.key(), token: state.token_prefix(), ttl_ms: state.ttl(), waited_ms: waited,
        },
        "granted"
    );
    if spans.are_made() {
        spans.note("granted", waited);
        state.keep_spans(spans.hold(|| state.key(), state.token_prefix()));
    }
}

/// Runs one round without waiting. Returns `None` if the lock is held, or if another caller in this process waits for
/// it.
pub(crate) async fn try_acquire(acquirer: &Acquirer, request: &Request) -> Result<Option<Lease>> {
    let began = Began::now(acquirer.clock());
    // In line like every caller, so an acquire without waiting overtakes no waiting caller.
    let (ticket, counts) = (acquirer.queue.join(&request.keys), &acquirer.leases.counts);
    if !ticket.asks() {
        counts.refused();
        began.came_to("refused", acquirer.clock());
        return Ok(None);
    }
    let spans = Spans::acquire(|| request.key());
    let connected = connect(request, acquirer).await;
    // One question rather than the cheap pair: a refusal, which is likely here, then takes one round trip.
    let outcome = match connected {
        Ok(()) => {
            let now = acquirer.clock().now();
            round(request, acquirer, (now, NEVER), (Expect::Unknown, false)).await
        }
        Err(refusal) => Round::Refused(refusal),
    };
    match outcome {
        Round::Granted(lease) => {
            counts.granted(Duration::ZERO);
            began.came_to("granted", acquirer.clock());
            granted(&lease, &spans, Duration::ZERO);
            Ok(Some(lease))
        }
        Round::Refused(refusal) => {
            let error = refusal.error(request, None);
            error.iter().for_each(|error| counts.failed(error));
            if error.is_none() {
                counts.refused();
            }
            let outcome = error.as_ref().map_or("refused", Error::code);
            began.came_to(outcome, acquirer.clock());
            spans.note(outcome, Duration::ZERO);
            error.map_or(Ok(None), Err)
        }
    }
}
