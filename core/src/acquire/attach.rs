//! Continuing a lease that is held already, here or elsewhere, under its token.
//!
//! It needs no vote. An extend round asks whether the token still has its keys. It creates nothing, so a wrong token
//! takes no lock. The restart guard does not apply, because a node that forgot the lease reports that.

use std::sync::Arc;
use std::time::Duration;

use super::request::Request;
use crate::error::{Error, Result};
use crate::lease::{ExtendRound, Lease, LeaseParams, Leases, State, Verdict};
use crate::node::{Claim, Fencing};
use crate::telemetry::Spans;

/// Keys that change more often than this during the requests do not belong to one holder.
const TRIES: u32 = 10;

/// The lease of `claim`, if the nodes still have it. `is_closed` is asked once the lease would be handed out.
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
    // Before the first request: only this reports a release by another lease of this client.
    let interest = leases.watch.subscribe(&request.keys);
    for _ in 0..TRIES {
        let mark = interest.mark();
        let lease = ask(request, claim, leases).await?;
        // The keys are the first holder's too: neither of these may delete them.
        // It may have been closed while the nodes were asked.
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

/// One extend round under the token, as a lease's own renewal would make it.
async fn ask(request: &Request, claim: &Claim, leases: &Arc<Leases>) -> Result<Lease> {
    let (nodes, timeout) = (&leases.nodes, request.node_timeout());
    let clock = &*nodes.clock;
    let validity = request.validity(clock.now());
    let mut round = ExtendRound::send(nodes, claim, validity, timeout, Fencing::Off);
    match round.verdict(clock).await {
        // A confirmation that comes when the time is over is as good as none.
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
