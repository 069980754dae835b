//! One renewal, or one check: an extend round, and what becomes of its answers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::extend::{Verdict, verdict};
use crate::node::Extension;
use crate::quorum::Poll;
use crate::state::State;

/// The least pause before a renewal is tried again.
const SOON: Duration = Duration::from_millis(1);
/// So long whoever deletes a lock on every node may take for it.
const MOMENT: Duration = Duration::from_millis(100);
/// Between two checks of one lease, however often it is said to have changed.
const BETWEEN: Duration = Duration::from_millis(20);

pub(crate) type Work = Pin<Box<dyn Future<Output = Next> + Send>>;

/// What follows a piece of work.
pub(crate) struct Next {
    /// When the renewal of which lease is next.
    pub(crate) again: Option<(Instant, u64)>,
    /// What is left to do meanwhile: stragglers never delay a renewal.
    pub(crate) rest: Option<Work>,
}

/// Extends at a third of the ttl after the last success, or soon again after an unknown outcome.
pub(crate) fn renew(state: Arc<State>) -> Work {
    Box::pin(async move {
        let Some(ttl) = state.renewal() else { return Next { again: None, rest: None } };
        state.warn_if_long();
        let round = extend(&state, ttl).await;
        let started = round.as_ref().map(|round| round.started);
        let rest = round.and_then(|round| mend(&state, round));
        let now = state.now();
        let again = state.renewal().map(|ttl| {
            let next = started.map_or(now + (ttl / 20).max(SOON), |started| started + ttl / 3);
            (next.max(now), state.id)
        });
        Next { again, rest }
    })
}

/// Asks whether the lease is still ours, because something changed. It asks for what is left of the lease: keys
/// that live as long are not touched, and one whose ttl somebody cut short gets it back.
pub(crate) fn check(state: Arc<State>) -> Work {
    Box::pin(async move {
        loop {
            let begun = state.now();
            let Some(end) = state.deadline() else { return Next { again: None, rest: None } };
            let round = extend(&state, end.since(begun)).await;
            if !state.checked() {
                let rest = round.and_then(|round| mend(&state, round));
                return Next { again: None, rest };
            }
            // Said to have changed again meanwhile, perhaps often: one more check answers all of it.
            state.quorum.clock.sleep_until(begun + BETWEEN).await;
        }
    })
}

/// A round that a quorum confirmed.
struct Confirmed {
    started: Instant,
    until: Instant,
    poll: Poll<Extension>,
}

/// One extend round, if a quorum confirmed it.
async fn extend(state: &State, ttl: Duration) -> Option<Confirmed> {
    let (mut poll, ask, started) = state.send_extend(ttl)?;
    let until = started + ask.patience;
    match verdict(&mut poll, &*state.quorum.clock, until).await {
        Verdict::Extended => {
            state.confirm(started, ask.ttl, ttl);
            Some(Confirmed { started, until, poll })
        }
        Verdict::Gone(reason) => {
            state.lose(reason);
            None
        }
        Verdict::Unknown => None,
    }
}

/// Listens to the answers that a confirmation did not need, and heals what turns out to be missing.
fn mend(state: &Arc<State>, round: Confirmed) -> Option<Work> {
    if round.poll.is_complete() && !round.poll.has(Extension::Missing) {
        return None;
    }
    let state = Arc::downgrade(state);
    Some(Box::pin(async move {
        let Confirmed { until, poll: mut first, .. } = round;
        let done = Next { again: None, rest: None };
        let Some(clock) = state.upgrade().map(|state| Arc::clone(&state.quorum.clock)) else {
            return done;
        };
        first.complete(&*clock, until).await;
        if !first.has(Extension::Missing) {
            return done;
        }
        let Some(state) = state.upgrade() else { return done };
        // One missing key may be the first of all, of a lock that is being deleted on every node: look again.
        let Some(ttl) = state.held_phase().map(|phase| phase.ttl) else { return done };
        clock.sleep_until(clock.now() + MOMENT.min(ttl / 20)).await;
        let Some(left) = state.deadline().map(|end| end.since(state.now())) else { return done };
        if let Some(mut second) = extend(&state, state.renewal().unwrap_or(left)).await {
            second.poll.complete(&*clock, second.until).await;
            state.heal([&first, &second.poll]);
        }
        done
    }))
}
