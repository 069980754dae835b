//! The end of a lease: by its owner, against it, or by a loss. Each is reported to the holder's waiting futures, the
//! counters, the log, metrics and traces.
//!
//! Deletes are sent at the call and confirmed separately. Dropping a lease or cancelling a release therefore needs no
//! task. Deletes compare the token, so another owner's key is not touched. Before `min_hold` has passed, the command
//! sets the key's TTL to the rest of it instead. It behaves like a delete otherwise.

use std::sync::Arc;
use std::time::Duration;

use super::state::LeaseState;
use super::status::Status;
use crate::clock::Instant;
use crate::error::{Error, LossReason, Result};
use crate::node::ReleaseMode;
use crate::quorum::{Collect, Nodes, Until, drift};
use crate::runtime::lock;
use crate::telemetry::log::LogContext;
use crate::telemetry::{Spans, log, metrics};
use crate::text::spelled;

/// The replies to the deletes of a lease, and the nodes that got them.
pub(crate) struct Deletes {
    replies: Collect<bool>,
    nodes: Arc<Nodes>,
}

/// Sent deletes. `Err` if the lease had been lost, `Ok(None)` if it had already ended.
pub(crate) type Sent = Result<Option<Deletes>>;

/// Releases the lease: ends it and sends the deletes. `completed` tells whether its body ended with success.
pub(crate) fn release(state: &LeaseState, completed: bool) -> Sent {
    end_lease(state, stay(state, completed))
}

/// Ends a lease that no caller received. Its keys are deleted immediately, because no work was done under them.
pub(crate) fn undo(state: &LeaseState) -> Sent {
    end_lease(state, Duration::ZERO)
}

/// How long the keys must stay from now on. Includes the drift, because a node's clock may run ahead.
fn stay(state: &LeaseState, completed: bool) -> Duration {
    let options = &state.request.options;
    // A body that failed leaves no memory, so that its next run is not refused.
    if options.min_hold.is_zero() || options.is_once() && !completed {
        return Duration::ZERO;
    }
    let left = (state.acquired + state.request.options.min_hold).since(state.now());
    if left.is_zero() { left } else { left + drift(left) }
}

fn end_lease(state: &LeaseState, stay: Duration) -> Sent {
    let Some((_, now)) = state.status_now() else {
        return Err(state.why_over());
    };
    // A loss alone deletes nothing, because the protected code may still run. The release at the end of the scope
    // deletes the keys that still have the token.
    let (before, deletes) = send_deletes(state, Status::Released, now, stay);
    if matches!(before, Status::Lost(..)) { Err(state.why_over()) } else { Ok(deletes) }
}

/// Releases the lease while its owner holds it, and notifies the owner of a loss. Returns `None` if it had already
/// ended.
///
/// Used by `release_all` and `shutdown`, which the owner did not call.
pub(crate) fn revoke(state: &LeaseState) -> Option<Deletes> {
    state.deadline()?;
    let now = state.now();
    let end = Status::Lost(LossReason::Revoked, now);
    let (before, deletes) = send_deletes(state, end, now, stay(state, false));
    if before == Status::Held {
        state.report(end);
    }
    deletes
}

/// Sends the deletes once. A held lease ends with the status `end` at `now`. Returns the status before that.
///
/// All leases with the token are notified before the first delete is sent, because another client may hold the lock
/// right after it. No heal can follow. An extend of another thread can, and has no effect on a node that has run the
/// delete, because its keys do not have the token anymore.
fn send_deletes(
    state: &LeaseState,
    end: Status,
    now: Instant,
    stay: Duration,
) -> (Status, Option<Deletes>) {
    let mut commands = state.commands();
    let held = state.finish(end, now);
    let before = if held { Status::Held } else { state.known() };
    // A detached lease is not deleted: a lease may have attached to its keys. Nor is a lost one before its release.
    let is_late = matches!((before, end), (Status::Lost(..), Status::Released));
    let unsent = (held || is_late) && !commands.deleted;
    // The TTL of the last extend may be shorter than the remaining time that an earlier one left on the keys.
    let left = state.last_deadline().since(now);
    let lifetime = commands.longest.max(left + drift(left));
    commands.deleted |= unsent;
    // A vote may be sent later, or again after the script is reloaded. The delete must be the last command.
    let detached = before == Status::Detached;
    let votes = if detached { Vec::new() } else { std::mem::take(&mut commands.votes) };
    let nodes = commands.nodes.take_if(|_| unsent);
    drop((commands, votes));
    finish_healing(state);
    let others = state.own.leases.registry.remove(state.id, state.keys());
    state.own.leases.fairness.released(state.keys(), now);
    state.ended.notify_waiters();
    let Some(nodes) = nodes else { return (before, None) };
    revoke_twins(state, others);
    // The keys of a lost lease are probably gone. A server with client tracking would remember the absent keys.
    let (leases, claim) = (&state.own.leases, &state.claim);
    let how = release_mode(state, stay, left, held);
    let timeout = state.request.options.node_timeout();
    let replies = nodes.release(claim, lifetime, how, timeout);
    // A local waiter that tries now sends its request after the delete on the same connections. It then learns how long
    // the keys stay.
    state.keys().iter().for_each(|key| leases.watch.wake(key));
    // Notifies leases that attached to the token in the meantime.
    let (registry, keys) = (&state.own.leases.registry, state.keys());
    revoke_twins(state, keys.iter().flat_map(|key| registry.on(key)));
    // The other ends are logged by their callers. Logged after the deletes, because the subscriber is code of the
    // program.
    if held && end == Status::Released {
        state.report(end);
    }
    (before, Some(Deletes { replies, nodes }))
}

/// Returns what the nodes do with the keys of a lease that was `held` until now, for `left` more.
fn release_mode(state: &LeaseState, stay: Duration, left: Duration, held: bool) -> ReleaseMode {
    // A healed node has the keys only for the last TTL. A lost lease may still have keys on a few nodes, which it must
    // not block for longer.
    let lengthens = held && (stay > left || state.ttl() < state.request.options.ttl);
    // A kept key of a lost lease would be the memory of a run that reported its loss.
    let keeps = !stay.is_zero() && (held || !state.request.options.is_once());
    match (keeps, held) {
        (true, _) => ReleaseMode::Stay { time: stay, lengthens },
        (false, true) => ReleaseMode::Delete,
        (false, false) => ReleaseMode::DeleteLate,
    }
}

/// Ends the lease in this process without deleting its keys. Returns whether it was held.
///
/// The new status ends the renewals. An extend that is under way still affects the keys.
pub(crate) fn detach(state: &LeaseState) -> bool {
    let Some(mut commands) = state.held_commands() else {
        return false;
    };
    let detached = state.finish(Status::Detached, state.now());
    let nodes = commands.nodes.take_if(|_| detached);
    drop(commands);
    if !detached {
        return false;
    }
    drop(nodes);
    finish_healing(state);
    state.own.leases.registry.remove(state.id, state.keys());
    state.ended.notify_waiters();
    state.report(Status::Detached);
    true
}

/// Waits until the background thread has restored the keys, if it does so just now. After the end of the lease, it does
/// so no more.
fn finish_healing(state: &LeaseState) {
    drop(lock(&state.healing));
}

/// Ends those of the leases on the same keys that have the same token, because one attached to the other.
///
/// They must be notified. Otherwise each would rely on deleted keys until its next renewal.
fn revoke_twins(state: &LeaseState, others: impl IntoIterator<Item = Arc<LeaseState>>) {
    for twin in others.into_iter().filter(|other| other.claim.token == state.claim.token) {
        twin.lose(LossReason::Revoked);
        // The deletes of the other lease are also its own.
        let mut commands = twin.commands();
        let unused = (std::mem::take(&mut commands.votes), commands.nodes.take());
        drop((commands, unused));
        finish_healing(&twin);
    }
}

/// Waits until the nodes confirm the deletes or the timeout passes. `completed` is that of the release.
///
/// Dropping the future changes nothing: the deletes are sent or pending.
pub(crate) async fn confirmed(state: Arc<LeaseState>, sent: Sent, completed: bool) -> Result<()> {
    let Some(Deletes { mut replies, nodes }) = sent? else { return Ok(()) };
    let timeout = state.request.options.node_timeout();
    replies.until(Until::Decided, &*nodes.clock, state.now() + timeout).await;
    if replies.tally.met() {
        return Ok(());
    }
    // So few nodes had the token that it had no quorum: the lease had ended unnoticed.
    if replies.tally.denied() {
        return Err(Error::lost(&state.key(), LossReason::Missing, Duration::ZERO));
    }
    let nodes = nodes.report(&replies, timeout);
    Err(Error::unavailable(&state.key(), &unconfirmed(&state, completed), nodes))
}

/// What a release that no quorum confirmed leaves, for an error.
fn unconfirmed(state: &LeaseState, completed: bool) -> String {
    if stay(state, completed).is_zero() {
        return "release not confirmed, so the key expires when its TTL ends".to_owned();
    }
    // A node keeps the key for `min_hold` from when the release reaches it, which may still happen.
    let min_hold = spelled(state.request.options.name_of_min_hold());
    format!("release not confirmed, so each node keeps the key until its TTL or {min_hold} ends")
}

impl LeaseState {
    /// Reports the end to the metrics, the log and the spans. Waiting futures are notified of a loss first.
    pub(super) fn report(&self, end: Status) {
        let word = match end {
            Status::Lost(reason, _) => {
                self.ended.notify_waiters();
                macro_rules! say {
                    ($level:ident) => {
                        log::event!(
                            $level, Lease, in self.log_context(),
                            {
                                key: self.key(), reason: reason.as_str(), token: self.token_prefix(),
                                held_ms: self.age(), attached: self.attached(),
                            },
                            "lease lost"
                        )
                    };
                }
                match reason {
                    // The program requested it with `shutdown` or `release_all`.
                    LossReason::Revoked => say!(Info),
                    _ => say!(Warn),
                }
                "lost"
            }
            Status::Released => {
                log::event!(
                    Debug, Lease, in self.log_context(),
                    {
                        key: self.key(), token: self.token_prefix(), held_ms: self.age(), attached: self.attached(),
                    },
                    "released"
                );
                "released"
            }
            Status::Detached => {
                log::event!(
                    Debug, Lease, in self.log_context(),
                    {
                        key: self.key(), token: self.token_prefix(), held_ms: self.age(), attached: self.attached(),
                    },
                    "detached"
                );
                "detached"
            }
            Status::Held => return,
        };
        metrics::held(word, || self.age());
        self.own.spans.get().into_iter().for_each(Spans::end_span);
    }

    /// How long the lease has been held.
    pub(crate) fn age(&self) -> Duration {
        self.now().since(self.acquired)
    }

    /// Sets the span that later events belong to, if one was made.
    pub(crate) fn keep_spans(&self, spans: Option<Spans>) {
        let Some(spans) = spans else { return };
        // The lease may have ended already. Nothing else would close the span then.
        if self.own.spans.set(spans).is_ok() && self.deadline().is_none() {
            self.own.spans.get().into_iter().for_each(Spans::end_span);
        }
    }

    /// The span that events belong to, or for a binding the call site of the acquire.
    pub(crate) fn log_context(&self) -> Option<Arc<LogContext>> {
        match self.own.spans.get() {
            Some(spans) => spans.log_context(),
            None => Some(LogContext::of_call(Arc::clone(self.call_site.get()?)).into()),
        }
    }

    /// A log field that tells the end of an attached lease from the end of an acquired one.
    fn attached(&self) -> Option<&'static str> {
        self.attached.then_some("true")
    }

    /// The part of the token that logs show. It must not be enough to release the lease.
    pub(crate) fn token_prefix(&self) -> &str {
        self.claim.token.get(..8).unwrap_or_default()
    }
}
