//! One renewal, or one check: an extend round, and what becomes of its answers.
//!
//! Each piece is a future of its own, which the monitor runs beside all others. It may be dropped at any await:
//! what was sent counts on the nodes, and the lease only believes what it has heard.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::Abortable;

use super::extend::{self, ExtendRound, Verdict};
use super::state::State;
use crate::clock::Instant;
use crate::error::seconds;
use crate::log;
use crate::node::Extension;
use crate::record::{Level, Topic};

/// The least pause before a renewal is tried again.
/// A twentieth of the shortest ttl is 5 ms: this only keeps a loop from spinning, should a shorter one ever get in.
const SOON: Duration = Duration::from_millis(1);
/// So long whoever deletes a lock on every node may take for it. A holder that put back each key as soon as it was told
/// that one is missing kept a lock which was being deleted everywhere, and was never told (6 of 800 deletes by force).
const MOMENT: Duration = Duration::from_millis(100);
/// Between two checks of one lease, however often it is said to have changed.
const BETWEEN: Duration = Duration::from_millis(20);

/// A piece of work for the monitor.
pub(crate) type Work = Pin<Box<dyn Future<Output = Next> + Send>>;

/// What follows a piece of work.
#[derive(Default)]
pub(crate) struct Next {
    /// When the renewal of which lease is next.
    pub(crate) again: Option<(Instant, u64)>,
    /// What is left to do meanwhile: stragglers never delay a renewal.
    /// Without it a frozen node would have each renewal wait for its deadline.
    pub(crate) rest: Option<Work>,
}

/// Extends at a third of the ttl after the last success, or soon again after an unknown outcome.
pub(crate) fn renew(state: Arc<State>) -> Work {
    Box::pin(async move {
        // It was released, lost or capped since it was planned: its renewals end here.
        let Some(ttl) = state.renewal() else { return Next::default() };
        warn_if_long(&state);
        let round = confirmed(&state, extend::send(&state, ttl)).await;
        state.leases.counts.renewed(round.is_some());
        say(&state, ttl, round.is_some());
        let started = round.as_ref().map(|round| round.validity.started);
        let rest = round.and_then(|round| mend(&state, round, false));
        let now = state.now();
        // From where the round began, not from now: the ttl on the nodes counts from there. Without a
        // confirmation soon again: time is all that is left to end the lease.
        let again = state.renewal().map(|ttl| {
            let next = started.map_or(now + (ttl / 20).max(SOON), |started| started + ttl / 3);
            (next.max(now), state.id)
        });
        Next { again, rest }
    })
}

/// What a renewal came to; a loss is said where it is found.
fn say(state: &State, ttl: Duration, confirmed: bool) {
    if !log::wanted(Level::Debug, Topic::Lease) {
        return;
    }
    let Some(end) = state.deadline() else { return };
    let left = end.since(state.now());
    if confirmed {
        log::event!(
            Debug, Lease, in state.place(),
            { key: state.key(), token: state.token_prefix(), ttl_ms: ttl, remaining_ms: left }, "renewed"
        );
    } else {
        log::event!(
            Debug, Lease, in state.place(),
            { key: state.key(), token: state.token_prefix(), remaining_ms: left },
            "not renewed, which is tried until it ends"
        );
    }
}

/// A body that takes many times its ttl is renewed for as long as it runs; somebody should know. Said once for each place in
/// the program, or each key where no place is known: thousands may be held on purpose.
fn warn_if_long(state: &State) {
    let Some(mut phase) = state.held_phase() else {
        return;
    };
    let held = state.now().since(state.params.acquired);
    if !phase.warned && held > phase.ttl.saturating_mul(10) {
        phase.warned = true;
        drop(phase);
        let place = state.acquired_at();
        let of = if place.is_empty() { state.key() } else { place.clone() };
        if !state.leases.long.is_new(of) {
            return;
        }
        log::event!(
            Warn, Lease, in state.place(), { key: state.key(), held: seconds(held) }, "held for more than ten times its ttl{place}",
            place = place
        );
    }
}

/// Checks of those of the leases that are not being checked already.
pub(crate) fn to_check(leases: Vec<Arc<State>>) -> impl Iterator<Item = Work> {
    leases.into_iter().filter(|state| state.checks.begin()).map(check)
}

/// Asks whether the lease is still ours, because something changed. It asks for what is left of the lease: keys
/// that live as long are not touched, and one whose ttl somebody cut short gets it back.
fn check(state: Arc<State>) -> Work {
    Box::pin(async move {
        loop {
            let begun = state.now();
            let Some(end) = state.deadline() else { return Next::default() };
            let round = confirmed(&state, extend::send_check(&state, end.since(begun))).await;
            // Only the last check heals: an earlier one may have been outdated by what was told meanwhile.
            if !state.checks.end() {
                let rest = round.and_then(|round| mend(&state, round, true));
                return Next { again: None, rest };
            }
            // Said to have changed again meanwhile, perhaps often: one more check answers all of it.
            state.leases.nodes.clock.sleep_until(begun + BETWEEN).await;
        }
    })
}

/// One extend round, if a quorum confirmed it.
///
/// A denial ends the lease in there; without any outcome the deadline stands.
async fn confirmed(state: &State, sent: Option<ExtendRound>) -> Option<ExtendRound> {
    let mut round = sent?;
    let verdict = extend::judge(state, &mut round).await;
    matches!(verdict, Verdict::Extended).then_some(round)
}

/// Listens to the answers that a confirmation did not need, and heals what turns out to be missing. After a `check`, until the
/// next one is listened to.
fn mend(state: &Arc<State>, mut first: ExtendRound, check: bool) -> Option<Work> {
    // Nearly always: nothing is left to hear and nothing is missing.
    if first.votes.is_complete() && !first.votes.has(Extension::Missing) {
        return None;
    }
    let newest = check.then(|| state.checks.listen());
    // Weak: a lease that was dropped meanwhile is not kept by what is left to hear of it.
    let state = Arc::downgrade(state);
    Some(Box::pin(async move {
        let done = Next::default;
        let Some(clock) = state.upgrade().map(|state| Arc::clone(&state.leases.nodes.clock)) else {
            return done();
        };
        let until = first.until();
        let late = first.votes.until_complete(&*clock, until);
        match newest {
            Some(newest) => drop(Abortable::new(late, newest).await),
            None => late.await,
        }
        if !first.votes.has(Extension::Missing) {
            return done();
        }
        let Some(state) = state.upgrade() else { return done() };
        // One missing key may be the first of all, of a lock that is being deleted on every node: look again.
        let Some(ttl) = state.held_phase().map(|phase| phase.ttl) else { return done() };
        clock.sleep_until(clock.now() + MOMENT.min(ttl / 20)).await;
        let Some(left) = state.deadline().map(|end| end.since(state.now())) else { return done() };
        // A lease that is renewed is extended by it; another one is only asked about.
        let second = match state.renewal() {
            Some(ttl) => extend::send(&state, ttl),
            None => extend::send_check(&state, left),
        };
        if let Some(mut second) = confirmed(&state, second).await {
            let until = second.until();
            second.votes.until_complete(&*clock, until).await;
            extend::heal(&state, [&first, &second]);
        }
        done()
    }))
}
