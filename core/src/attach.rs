//! Continuing a lease that is held already, here or elsewhere, under its token.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::extend::{Verdict, verdict};
use crate::lease::Lease;
use crate::live::Live;
use crate::lock::Lock;
use crate::node::{Ask, Claim, Fencing};
use crate::quorum::drift;

/// Keys that change more often than this while they are asked for are no holder's.
const TRIES: u32 = 10;

pub(crate) async fn attach(lock: Lock, claim: Claim) -> Result<Lease> {
    lock.check()?;
    if claim.token.is_empty() {
        return Err(lock.invalid("the token is empty: give that of the lease to go on with"));
    }
    let live = lock.client.live(&lock.key())?;
    let interest = live.watch.subscribe(&lock.keys);
    for _ in 0..TRIES {
        let mark = interest.mark();
        let lease = ask(&lock, &live, &claim).await?;
        // The keys are the first holder's too: neither of these may delete them.
        if lock.client.is_closed() {
            lease.into_hold().abandon();
            return Err(Error::closed(&lock.key()));
        }
        if interest.mark() == mark {
            return Ok(lease);
        }
        // A release of the token may have run behind the question: what is asked now goes behind it.
        lease.into_hold().abandon();
    }
    Err(lock.invalid("its keys change all the time: who holds it?"))
}

async fn ask(lock: &Lock, live: &Arc<Live>, claim: &Claim) -> Result<Lease> {
    let (ttl, patience) = (lock.asked_ttl(), lock.options.node_timeout());
    let clock = &*live.quorum.clock;
    let started = clock.now();
    let ask = Ask { ttl, patience, first: false, likely: false, fencing: Fencing::Off };
    let mut poll = live.quorum.extend(claim, ask);
    let end = started + ttl.saturating_sub(drift(ttl));
    match verdict(&mut poll, clock, started + patience).await {
        Verdict::Extended if clock.now() < end => {
            let terms = lock.terms(claim.clone(), started, None);
            Ok(Lease::new(live.lease(terms, (end, lock.options.ttl, ttl < lock.options.ttl))))
        }
        Verdict::Gone(reason) => Err(Error::lost(&lock.key(), reason, Duration::ZERO)),
        _ => Err(lock.unavailable(live.quorum.report(&poll, patience), None)),
    }
}
