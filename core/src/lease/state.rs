//! The state of one lease: held, extended, healed, then released or lost permanently. [`super::end`] sets and reports
//! the end.
//!
//! A lease is lost by [`State::lose`] (denied by the nodes, or the client was closed), by `revoke` in [`super::end`],
//! or by the first look at it after its deadline ([`State::phase_now`]). The monitor looks at each deadline.
//!
//! Never await, allocate, free, log or run a callback under the lock of [`Phase`]. The background thread waits for this
//! lock, and a notified caller may query the lease immediately.

use std::any::Any;
use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::{AbortHandle, AbortRegistration, FutureExt};
use tokio::sync::Notify;

use super::registry::Registry;
use crate::clock::{Instant, NEVER};
use crate::error::{Error, LossReason};
use crate::fairness::Fairness;
use crate::lock::options::{Options, Request};
use crate::node::{Claim, Reply, Vote, Watch};
use crate::quorum::{Nodes, Validity};
use crate::runtime::{Made, fork_generation, lock};
use crate::telemetry::{Counts, Logged, Spans, Throttle};

/// What all leases of a client in this process share.
pub(crate) struct Leases {
    pub(crate) nodes: Arc<Nodes>,
    /// Reports changes of keys to local waiters.
    pub(crate) watch: Arc<Watch>,
    /// The leases. The monitor shares only this field, so that it ends when no object is left that could change a
    /// lease.
    pub(crate) registry: Arc<Registry<State>>,
    /// Counts how leases ended.
    pub(crate) counts: Arc<Counts>,
    /// Tracks which keys other clients want.
    pub(crate) fairness: Fairness,
    /// Tracks the warnings about long holds.
    pub(crate) long: Logged,
    /// Limits the log records about releases that no quorum confirmed.
    pub(crate) unconfirmed: Throttle,
}

/// The state of one lease, shared by its handles and the monitor.
pub(crate) struct State {
    /// Unique among the client's leases.
    pub(crate) id: u64,
    /// The keys and options of the lock. An extend waits at most a fifth of the current TTL for one node's reply.
    pub(crate) request: Arc<Request>,
    /// The keys with the token of this lease.
    pub(crate) claim: Claim,
    /// When the round that granted the lease began, or the one that attached it.
    ///
    /// `max_hold`, `min_hold`, the first renewal and the warning about a long hold are measured from here.
    pub(crate) acquired: Instant,
    pub(crate) fence: Option<u64>,
    /// Whether the lease was attached. Another lease with its token may then live on when this one ends.
    pub(super) attached: bool,
    /// What the lease shares with the others of its client.
    pub(crate) leases: Arc<Leases>,
    /// The process that made the lease. A forked child does not own it.
    generation: u32,
    /// Where the lease was acquired, in the notation of its language. Only messages show it.
    pub(crate) call_site: OnceLock<Box<dyn CallSite>>,
    pub(crate) owner: OnceLock<Owner>,
    pub(super) spans: OnceLock<Spans>,
    phase: Mutex<Phase>,
    /// Locked while missing keys are restored.
    pub(super) healing: Mutex<()>,
    pub(super) checks: Checks,
    pub(crate) ended: Notify,
}

impl State {
    /// A lease that a quorum granted, with its `votes` that may still be under way or unsent. The monitor watches it
    /// from now on, and its end drops the votes before it sends their deletes.
    pub(crate) fn new(
        request: &Arc<Request>,
        (claim, fence, attached): (Claim, Option<u64>, bool),
        granted: Validity,
        votes: Vec<Reply<Vote>>,
        leases: &Arc<Leases>,
    ) -> Arc<Self> {
        let phase = Phase { votes, ..Phase::granted(granted) };
        // The earlier event wakes the monitor. After a slow round the deadline may come before the renewal.
        let first = phase.first_renewal(&request.options, granted.started).unwrap_or(NEVER);
        let first = first.min(phase.deadline);
        let state = Arc::new(Self {
            id: leases.registry.new_id(),
            request: Arc::clone(request),
            claim,
            acquired: granted.started,
            fence,
            attached,
            leases: Arc::clone(leases),
            generation: fork_generation(),
            call_site: OnceLock::new(),
            owner: OnceLock::new(),
            spans: OnceLock::new(),
            phase: Mutex::new(phase),
            healing: Mutex::default(),
            checks: Checks::default(),
            ended: Notify::new(),
        });
        leases.registry.add(state.id, &state.claim.keys, &state, first);
        state
    }

    pub(crate) fn now(&self) -> Instant {
        self.leases.nodes.clock.now()
    }

    pub(crate) fn keys(&self) -> &[String] {
        &self.claim.keys
    }

    pub(crate) fn key(&self) -> String {
        self.keys().join(", ")
    }

    /// Whether the lease belongs to the parent of this forked process. Its locks may be stuck, because a thread of the
    /// parent held one.
    pub(super) fn forked(&self) -> bool {
        self.generation != fork_generation()
    }

    /// Runs a call of the lease. If the lease belongs to the parent of this forked process, the call is neither polled
    /// nor dropped, and its result is that of `forked`.
    pub(super) fn in_own_process<F: Future>(
        self: &Arc<Self>,
        call: F,
        forked: fn(&Self) -> F::Output,
    ) -> impl Future<Output = F::Output> + use<F> {
        let state = Arc::clone(self);
        Made::by(self.generation, call).map(move |done| done.unwrap_or_else(|| forked(&state)))
    }

    /// The current phase. A lease that has expired is marked as lost by the first caller. `None` in a forked child.
    pub(crate) fn phase(&self) -> Option<MutexGuard<'_, Phase>> {
        self.phase_now().map(|(phase, _)| phase)
    }

    /// The current phase, and the time at which it was read.
    pub(super) fn phase_now(&self) -> Option<(MutexGuard<'_, Phase>, Instant)> {
        if self.forked() {
            return None;
        }
        let mut phase = lock(&self.phase);
        // Read after locking, because time passes while another thread holds the lock.
        let now = self.now();
        if phase.status == Status::Held && now >= phase.deadline {
            let reason = if phase.capped { LossReason::MaxHold } else { LossReason::Expired };
            let end = Status::Lost(reason, phase.deadline);
            // Unlocks first, because a notified caller may query the lease immediately.
            self.end(phase, end, now);
            self.report(end);
            phase = lock(&self.phase);
        }
        Some((phase, now))
    }

    pub(crate) fn held_phase(&self) -> Option<MutexGuard<'_, Phase>> {
        self.phase().filter(|phase| phase.status == Status::Held)
    }

    /// The status and the deadline. Changes nothing, unlike the other methods.
    #[cfg(test)]
    pub(crate) fn peek(&self) -> (Status, Instant) {
        let phase = lock(&self.phase);
        (phase.status, phase.deadline)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held_phase().is_some()
    }

    /// The TTL that renewals request. Zero in a forked child.
    pub(crate) fn ttl(&self) -> Duration {
        self.phase().map_or(Duration::ZERO, |phase| phase.ttl)
    }

    /// When the lease ends unless it is extended. `None` if it has ended.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some(self.held_phase()?.deadline)
    }

    /// The TTL that a renewal requests. `None` if there is nothing to renew.
    pub(crate) fn renewal(&self) -> Option<Duration> {
        let phase = self.held_phase()?;
        (self.request.options.renew && !phase.capped).then_some(phase.ttl)
    }

    /// A third of the TTL after the round began. It may have passed if the round was slow.
    pub(super) fn first_renewal(&self) -> Option<Instant> {
        self.held_phase()?.first_renewal(&self.request.options, self.acquired)
    }

    /// Applies a confirmed extend. The deadline only moves forward.
    pub(crate) fn confirm(&self, granted: Validity) {
        let Some(mut phase) = self.held_phase() else { return };
        phase.deadline = phase.deadline.max(granted.ends());
        phase.capped |= granted.is_capped();
    }

    /// Marks the lease as lost permanently. The first reason stays, and no later reply revives the lease.
    pub(crate) fn lose(&self, reason: LossReason) {
        let Some(phase) = self.held_phase() else { return };
        let now = self.now();
        let end = Status::Lost(reason, now);
        self.end(phase, end, now);
        self.report(end);
    }

    /// Removes the lease from the registry after its end.
    pub(super) fn unregister(&self) {
        self.leases.registry.remove(self.id, self.keys());
    }

    /// The error with the loss reason, if the lease was lost.
    pub(crate) fn loss(&self) -> Option<Error> {
        let Some(phase) = self.phase() else {
            return Some(Error::lost(&self.key(), LossReason::Forked, Duration::ZERO));
        };
        let Status::Lost(reason, at) = phase.status else { return None };
        drop(phase);
        Some(Error::lost(&self.key(), reason, self.now().since(at)))
    }

    /// The error that explains why the lease is not held.
    pub(crate) fn why_over(&self) -> Error {
        self.loss().unwrap_or_else(|| Error::released(&self.key()))
    }

    /// `, acquired at CALL SITE`, or an empty string if the call site is unknown.
    pub(crate) fn acquired_at(&self) -> String {
        self.call_site.get().map_or_else(String::new, |at| format!(", acquired at {at}"))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let forked = self.forked();
        let phase = self.phase.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !forked {
            // Otherwise its end has removed it.
            if !phase.deleted && phase.status != Status::Detached {
                self.leases.registry.remove_dropped(self.id, &self.claim.keys);
            }
            return;
        }
        // Dropping them could lock a mutex of the parent, or wake its threads.
        let votes = std::mem::take(&mut phase.votes);
        std::mem::forget((votes, self.spans.take(), Arc::clone(&self.leases)));
    }
}

pub(crate) struct Phase {
    /// `Held` at first, then one of the other states permanently.
    pub(super) status: Status,
    /// The lease is certainly held until then. It only moves forward.
    pub(super) deadline: Instant,
    pub(super) ttl: Duration,
    /// Whether `max_hold` limited the last grant. There is nothing left to renew, and the loss reason is `max_hold`.
    pub(super) capped: bool,
    /// Whether the deletes were sent. A later release or drop sends none.
    pub(super) deleted: bool,
    pub(super) warned: bool,
    /// The longest time that the keys may live according to all requests, confirmed or not. A delete that cannot be
    /// sent is kept pending for that long.
    pub(super) longest: Duration,
    /// First votes that the quorum did not need. They are kept so that nodes which are still connecting receive theirs.
    /// The first extend replaces them.
    pub(super) votes: Vec<Reply<Vote>>,
}

/// Whether the lease is held, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Held,
    /// Released by the owner. If another caller releases it, the owner is notified of a loss instead.
    Released,
    /// Detached: the keys live on.
    Detached,
    /// The reason and the time of a loss. If the lease expired, the time is the deadline, even if this was noticed
    /// later.
    Lost(LossReason, Instant),
}

impl Phase {
    pub(super) fn granted(granted: Validity) -> Self {
        Self {
            status: Status::Held,
            deadline: granted.ends(),
            ttl: granted.wanted,
            capped: granted.is_capped(),
            deleted: false,
            warned: false,
            // This exceeds the request if `max_hold` limited it. Keeping a pending delete for too long is harmless.
            longest: granted.wanted,
            votes: Vec::new(),
        }
    }

    /// A third of the TTL after the round began, or `None` if the lease is not renewed.
    fn first_renewal(&self, options: &Options, acquired: Instant) -> Option<Instant> {
        (options.renew && !self.capped).then(|| acquired + self.ttl / 3)
    }
}

/// Where a program acquired a lease, in the notation of its language. Only messages show it.
pub trait CallSite: Any + Display + Send + Sync {}

impl<T: Any + Display + Send + Sync> CallSite for T {}

/// The thread or task that acquires or holds a lock in its process, if the language knows it.
///
/// A word for messages ("this thread") and a number that distinguishes two owners with the same word. Only messages use
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub &'static str, pub u64);

const NO_CHECK: u8 = 0;
/// A check is under way, and nothing has changed since it began.
const ONE_CHECK: u8 = 1;
/// A check is under way, and something has changed since it began.
const ONE_MORE: u8 = 2;

/// Counts the checks of one lease, so that at most one runs at a time.
///
/// A node may report a change many times while a check is under way. A single further check that begins afterwards sees
/// every change that the first one may have missed.
///
/// An atomic instead of a field of the lease's phase: a notification never waits for a lease's lock.
#[derive(Default)]
pub(super) struct Checks {
    under_way: AtomicU8,
    /// Aborts the future that waits for late replies to the last check.
    listener: Mutex<Option<AbortHandle>>,
}

impl Checks {
    /// Whether the caller must start a check. If one is under way, it is repeated instead.
    pub(super) fn begin(&self) -> bool {
        let more = |checks| Some(if checks == NO_CHECK { ONE_CHECK } else { ONE_MORE });
        self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) == Ok(NO_CHECK)
    }

    /// Ends a check. Returns whether it must be repeated.
    pub(super) fn end(&self) -> bool {
        let less = |checks| Some(if checks == ONE_MORE { ONE_CHECK } else { NO_CHECK });
        self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(ONE_MORE)
    }

    /// Registers the future that waits for late replies to this check, and aborts the one of the previous check.
    ///
    /// A later notification may have outdated the previous check. While a node is slow, repeated checks would otherwise
    /// leave one waiting future each.
    pub(super) fn listen(&self) -> AbortRegistration {
        let (handle, registration) = AbortHandle::new_pair();
        let before = lock(&self.listener).replace(handle);
        if let Some(before) = before {
            before.abort();
        }
        registration
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;
    use futures_util::future::{Abortable, Aborted};

    use super::*;

    #[test]
    fn new_check_cancels_the_previous_one() {
        let checks = Checks::default();
        let [first, second] = [(); 2].map(|()| Abortable::new(pending::<()>(), checks.listen()));
        assert_eq!(first.now_or_never(), Some(Err(Aborted)));
        assert_eq!(second.now_or_never(), None);
    }
}
