//! Continues a lease that is already held, in this process or another one, by its token.
//!
//! No vote is needed. An extend round checks whether the token still owns its keys. It creates no key, so a wrong token
//! acquires nothing. The restart guard does not apply, because a node that lost the lease reports a missing key.

use std::sync::Arc;
use std::time::Duration;

use super::request::Request;
use crate::error::{Error, Result};
use crate::lease::{ExtendRound, Lease, LeaseParams, Leases, State, Verdict};
use crate::node::{Claim, Fencing};
use crate::telemetry::Spans;

/// The maximum number of extend rounds. Keys that change in each of them do not belong to a single holder.
const TRIES: u32 = 10;

/// Returns the lease of `claim`, if the nodes still have it. `is_closed` is called right before the lease is returned.
pub(crate) async fn attach(
    request: &Request,
    claim: &Claim,
    leases: &Arc<Leases>,
    is_closed: impl Fn() -> bool,
) -> Result<Lease> {
    if let Err(votes) = leases.nodes.connect(&request.keys).await {
        let nodes = leases.nodes.report(&votes, leases.nodes.connect_timeout);
        return Err(request.unavailable(nodes, None));
    }
    // Subscribes before the first request. Otherwise a release by another lease of this client would be missed.
    let interest = leases.watch.subscribe(&request.keys);
    for _ in 0..TRIES {
        let mark = interest.mark();
        let lease = ask(request, claim, leases).await?;
        // The client may have been closed during the round. The first holder uses the same keys, so neither branch
        // deletes them.
        if is_closed() {
            lease.into_handle().detach();
            return Err(Error::closed(&request.key()));
        }
        if interest.mark() == mark {
            return Ok(lease);
        }
        // A release of the token may have run after this request. The next request is ordered after the release.
        lease.into_handle().detach();
    }
    Err(request.invalid("its keys changed during every attempt. Check which client holds it"))
}

/// Runs one extend round under the token, like a renewal of the lease.
async fn ask(request: &Request, claim: &Claim, leases: &Arc<Leases>) -> Result<Lease> {
    let (nodes, timeout) = (&leases.nodes, request.node_timeout());
    let clock = &*nodes.clock;
    let validity = request.validity(clock.now());
    let mut round = ExtendRound::send(nodes, claim, validity, timeout, Fencing::Off);
    match round.verdict(clock).await {
        // A confirmation after the end of its validity does not count.
        Verdict::Extended if clock.now() < validity.ends() => {
            let params = request.lease_params(claim.clone(), validity.started, None);
            let params = LeaseParams { attached: true, ..params };
            let state = State::new(params, validity, leases);
            state.keep_spans(Spans::attached(|| state.key(), state.token_prefix()));
            Ok(Lease::new(state))
        }
        Verdict::Gone(reason) => Err(Error::lost(&request.key(), reason, Duration::ZERO)),
        _ => Err(request.unavailable(nodes.report(&round.votes, timeout), None)),
    }
}
