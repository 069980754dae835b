//! How a lease is given back, by its owner or over its owner's head.
//!
//! Deletes are sent at the call and confirmed apart, so that dropping a lease, or a release that is cancelled,
//! needs no task. They hit the token alone: a key that another has by now is left as it is. With `min_hold` a key that is
//! deleted too early for it stays until then: what is sent shortens its time, and is a delete in all else.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::phase::{Phase, Status};
use super::state::State;
use crate::clock::Instant;
use crate::error::{Error, LossReason, Result};
use crate::quorum::{Collect, drift};

/// Deletes that were sent: `Err` if the lease had been lost, `Ok(None)` if it was over already.
pub(crate) type Sent = Result<Option<Collect<bool>>>;

/// Ends the lease and sends the deletes.
pub(crate) fn send(state: &State) -> Sent {
    end(state, stay(state))
}

/// The same of a lease that nobody has had: its keys go at once, as nothing was done under them.
pub(crate) fn undo(state: &State) -> Sent {
    end(state, Duration::ZERO)
}

/// How long the keys are to stay from now on; with the drift, as a node's clock may run ahead of ours.
fn stay(state: &State) -> Duration {
    if state.params.min_hold.is_zero() {
        return Duration::ZERO;
    }
    let left = (state.params.acquired + state.params.min_hold).since(state.now());
    if left.is_zero() { left } else { left + drift(left) }
}

fn end(state: &State, stay: Duration) -> Sent {
    let Some((phase, now)) = state.phase_now() else {
        return Err(state.why_over());
    };
    // A loss deletes nothing by itself, for the body may still run; the end of its scope does, wherever the key
    // is ours.
    let lost = matches!(phase.status, Status::Lost(..));
    let deletes = send_deletes(state, phase, (Status::Released, now), stay);
    if lost { Err(state.why_over()) } else { Ok(deletes) }
}

/// Gives the lease back under whoever holds it, who is told of a loss; `None` if it was over already.
///
/// For `release_all` and `shutdown`: to the body under the lease it is no release of its own.
pub(crate) fn take_back(state: &State) -> Option<Collect<bool>> {
    let phase = state.held_phase()?;
    let now = state.now();
    let end = Status::Lost(LossReason::Revoked, now);
    let deletes = send_deletes(state, phase, (end, now), stay(state));
    state.tell(LossReason::Revoked);
    deletes
}

/// Sends the deletes, once; a lease that was held ends as `end`, `now`.
///
/// Everybody who runs under the token has the word before the first delete is sent: another may hold right after it.
/// No extend or heal can follow, as these look at the status under the lease's lock.
fn send_deletes(
    state: &State,
    mut phase: MutexGuard<'_, Phase>,
    (end, now): (Status, Instant),
    stay: Duration,
) -> Option<Collect<bool>> {
    let held = phase.status == Status::Held;
    // A detached lease is left to itself: its keys may be those of who attached to them.
    let unsent = (held || matches!(phase.status, Status::Lost(..))) && !phase.deleted;
    // The ttl of the last extend may be shorter than what an earlier one left on the keys.
    let left = phase.deadline.since(now);
    let owed = phase.longest.max(left + drift(left));
    // A vote that is listened to may be sent again after a script reload; the delete must be last.
    phase.votes = Vec::new();
    phase.deleted |= unsent;
    if held {
        state.end(&mut phase, end, now);
    }
    drop(phase);
    state.unregister();
    state.leases.again.give_back(state.keys(), now);
    state.ring();
    if !unsent {
        return None;
    }
    let tell = || twins(state).iter().for_each(|twin| twin.lose(LossReason::Revoked));
    tell();
    // Keys of a lease that was lost are probably gone: the servers are not to remember who asked for them.
    let (leases, claim) = (&state.leases, &state.params.claim);
    let deletes = if stay.is_zero() {
        leases.nodes.release(claim, owed, !held)
    } else {
        leases.nodes.shorten(claim, owed, stay)
    };
    // What a local waiter asks now goes behind the delete on the same connections, and finds how long the keys stay.
    state.keys().iter().for_each(|key| leases.watch.wake(key));
    // Whoever has attached to the token meanwhile.
    tell();
    // Of another end it is said why, where it is told. Behind the deletes: what listens is the program's code.
    if held && end == Status::Released {
        state.say_released();
    }
    Some(deletes)
}

/// Ends it here and deletes nothing; true if it was held.
///
/// Renewal ends with the status; what an extend that is under way has asked for stays on the keys.
pub(crate) fn detach(state: &State) -> bool {
    let Some(mut phase) = state.held_phase() else {
        return false;
    };
    state.end(&mut phase, Status::Detached, state.now());
    drop(phase);
    state.unregister();
    state.ring();
    state.say_detached();
    true
}

/// Other leases of the same token: one owner's, of which one has attached to the other's.
/// They are told, or each would believe in keys that the other has deleted until its next renewal.
fn twins(state: &State) -> Vec<Arc<State>> {
    let others = state.keys().iter().flat_map(|key| state.leases.registry.on(key));
    others.filter(|other| other.params.claim.token == state.params.claim.token).collect()
}

/// Ends when the nodes have confirmed the deletes, or did not in time.
///
/// Dropping the future changes nothing: the deletes are on their way, or owed.
pub(crate) async fn confirmed(state: Arc<State>, sent: Sent) -> Result<()> {
    let Some(mut deletes) = sent? else { return Ok(()) };
    let (nodes, timeout) = (&state.leases.nodes, state.params.node_timeout);
    deletes.until_decided(&*nodes.clock, state.now() + timeout).await;
    if deletes.tally.met() {
        return Ok(());
    }
    // So many nodes had the token no more that it was no quorum's: the lease had ended before, unnoticed.
    if deletes.tally.denied() {
        return Err(Error::lost(&state.key(), LossReason::Missing, Duration::ZERO));
    }
    let nodes = nodes.report(&deletes, timeout);
    Err(Error::unavailable(&state.key(), "release not confirmed", nodes))
}
