//! One renewal: an extend round, and what becomes of its answers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::node::Extension;
use crate::quorum::Poll;
use crate::state::State;

/// The least pause before a renewal is tried again.
const SOON: Duration = Duration::from_millis(1);
/// So long whoever deletes a lock on every node may take for it.
const MOMENT: Duration = Duration::from_millis(100);

/// When the renewal of which lease is next; `None` once there is nothing to renew.
pub(crate) type Again = Option<(Instant, u64)>;
pub(crate) type Renewal = Pin<Box<dyn Future<Output = Again> + Send>>;

/// Extends at a third of the ttl after the last success, or soon again after an unknown outcome.
pub(crate) fn renew(state: Arc<State>) -> Renewal {
    Box::pin(async move {
        let ttl = state.renewal()?;
        state.warn_if_long();
        let started = ask(&state, ttl).await;
        let now = state.quorum.clock.now();
        let next = started.map_or(now + (ttl / 20).max(SOON), |started| started + ttl / 3);
        state.renewal().map(|_| (next.max(now), state.id))
    })
}

/// Asks whether the lease is still ours, because something changed. It asks for what is left of the lease: keys
/// that live as long are not touched, and one whose ttl somebody cut short gets it back.
pub(crate) fn check(state: Arc<State>) -> Renewal {
    Box::pin(async move {
        let left = state.deadline()?.since(state.now());
        ask(&state, left).await;
        None
    })
}

/// Extends, and heals what turns out to be missing; when it began, if a quorum confirmed it.
async fn ask(state: &State, ttl: Duration) -> Option<Instant> {
    let (started, first) = extend(state, ttl).await?;
    if !first.has(Extension::Missing) {
        return Some(started);
    }
    // One missing key may be the first of all, of a lock that is being deleted on every node: look again.
    let clock = &*state.quorum.clock;
    let moment = MOMENT.min(state.held_phase()?.ttl / 20);
    clock.sleep_until(clock.now() + moment).await;
    let left = state.deadline()?.since(state.now());
    let Some((again, second)) = extend(state, state.renewal().unwrap_or(left)).await else {
        return Some(started);
    };
    state.heal([&first, &second]);
    Some(again)
}

/// One extend round: its start and every answer, if a quorum confirmed it.
async fn extend(state: &State, ttl: Duration) -> Option<(Instant, Poll<Extension>)> {
    let (mut poll, ask, started) = state.send_extend(ttl)?;
    let clock = &*state.quorum.clock;
    let deadline = started + ask.patience;
    poll.decide(clock, deadline).await;
    if poll.tally.met() {
        state.confirm(started, ask.ttl, ttl);
        poll.complete(clock, deadline).await;
        return Some((started, poll));
    }
    if poll.tally.denied() {
        state.lose(State::loss_reason(&poll));
    }
    None
}
