//! The life cycle of one lease: held, extended, healed, then released or lost permanently.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::checks::Checks;
use super::logged::Logged;
use super::params::{CallSite, LeaseParams, Owner};
use super::phase::{Phase, Status};
use super::registry::Registry;
use super::validity::Validity;
use crate::clock::{Instant, NEVER};
use crate::error::{Error, LossReason};
use crate::fairness::Fairness;
use crate::node::{Reply, Vote, Watch};
use crate::quorum::Nodes;
use crate::runtime::fork_generation;
use crate::telemetry::{Counts, Spans, Throttle};

/// What all leases of a client in this process share.
pub(crate) struct Leases {
    /// The nodes.
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
    pub(crate) unconfirmed: Mutex<Throttle>,
}

/// The state of one lease, shared by its handles and the monitor.
pub(crate) struct State {
    /// Unique among the client's leases.
    pub(crate) id: u64,
    /// The constant parameters.
    pub(crate) params: LeaseParams,
    /// What the lease shares with the others of its client.
    pub(crate) leases: Arc<Leases>,
    /// The process that made the lease. A forked child does not own it.
    generation: u32,
    /// Where the lease was acquired, in the notation of its language. Only messages show it.
    pub(crate) call_site: OnceLock<Box<dyn CallSite>>,
    /// The owner that acquired the lease, if the language knows it.
    pub(crate) owner: OnceLock<Owner>,
    /// The tracing spans of the lease.
    pub(super) spans: OnceLock<Spans>,
    /// See [`super::phase`] for what is forbidden under this lock.
    phase: Mutex<Phase>,
    /// Counts the checks of the lease.
    pub(super) checks: Checks,
    /// Notified when the lease ends.
    pub(crate) ended: Notify,
}

impl State {
    /// A lease that a quorum granted. The monitor watches it from now on.
    pub(crate) fn new(params: LeaseParams, granted: Validity, leases: &Arc<Leases>) -> Arc<Self> {
        let phase = Phase::granted(granted);
        // The earlier event wakes the monitor. After a slow round the deadline may come before the renewal.
        let first = phase.first_renewal(&params).unwrap_or(NEVER).min(phase.deadline);
        let state = Arc::new(Self {
            id: leases.registry.new_id(),
            params,
            leases: Arc::clone(leases),
            generation: fork_generation(),
            call_site: OnceLock::new(),
            owner: OnceLock::new(),
            spans: OnceLock::new(),
            phase: Mutex::new(phase),
            checks: Checks::default(),
            ended: Notify::new(),
        });
        leases.registry.add(state.id, &state.params.claim.keys, &state, first);
        state
    }

    /// Keeps votes that may still be under way or unsent. They belong to the lease.
    pub(crate) fn keep_votes(&self, votes: Vec<Reply<Vote>>) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        // The status alone decides, because the end of the lease drops the votes. The deadline may have passed.
        if phase.status == Status::Held {
            phase.votes = votes;
        }
    }

    /// The current time of the client's clock.
    pub(crate) fn now(&self) -> Instant {
        self.leases.nodes.clock.now()
    }

    /// The Redis keys.
    pub(crate) fn keys(&self) -> &[String] {
        &self.params.claim.keys
    }

    /// The Redis keys, separated by commas.
    pub(crate) fn key(&self) -> String {
        self.keys().join(", ")
    }

    /// Whether the lease belongs to the parent of this forked process. Its locks may be stuck, because a thread of the
    /// parent held one.
    fn forked(&self) -> bool {
        self.generation != fork_generation()
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
        let lock = || self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let mut phase = lock();
        // Read after locking, because time passes while another thread holds the lock.
        let now = self.now();
        if phase.status == Status::Held && now >= phase.deadline {
            let reason = if phase.capped { LossReason::MaxHold } else { LossReason::Expired };
            let end = Status::Lost(reason, phase.deadline);
            self.end(&mut phase, end, now);
            // Unlocked first, because a notified caller may query the lease immediately.
            drop(phase);
            self.report(end);
            phase = lock();
        }
        Some((phase, now))
    }

    /// The phase, while the lease is held.
    pub(crate) fn held_phase(&self) -> Option<MutexGuard<'_, Phase>> {
        self.phase().filter(|phase| phase.status == Status::Held)
    }

    /// Whether the lease would be held at `now`. Unlike [`State::is_held`] it changes nothing.
    #[cfg(test)]
    pub(crate) fn valid_at(&self, now: Instant) -> bool {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        phase.status == Status::Held && now < phase.deadline
    }

    /// Whether the end of the lease was noticed. The value tells a loss from a release.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> Option<bool> {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        (phase.status != Status::Held).then_some(matches!(phase.status, Status::Lost(..)))
    }

    /// Whether the owner released the lease. Unlike [`State::is_released`] it changes nothing.
    #[cfg(test)]
    pub(crate) fn was_released(&self) -> bool {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner).status == Status::Released
    }

    /// Whether the lease is certainly held at this moment.
    pub(crate) fn is_held(&self) -> bool {
        self.held_phase().is_some()
    }

    /// Whether the owner released the lease.
    pub(crate) fn is_released(&self) -> bool {
        self.phase().is_some_and(|phase| phase.status == Status::Released)
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
        (self.params.renew && !phase.capped).then_some(phase.ttl)
    }

    /// A third of the TTL after the round began. It may have passed if the round was slow.
    pub(crate) fn first_renewal(&self) -> Option<Instant> {
        self.held_phase().and_then(|phase| phase.first_renewal(&self.params))
    }

    /// Applies a confirmed extend. The deadline only moves forward.
    pub(crate) fn confirm(&self, granted: Validity) {
        let Some(mut phase) = self.held_phase() else { return };
        phase.deadline = phase.deadline.max(granted.ends());
        phase.capped |= granted.is_capped();
    }

    /// Marks the lease as lost permanently. The first reason stays, and no later reply revives the lease.
    pub(crate) fn lose(&self, reason: LossReason) {
        let Some(mut phase) = self.held_phase() else { return };
        let now = self.now();
        let end = Status::Lost(reason, now);
        self.end(&mut phase, end, now);
        drop(phase);
        self.report(end);
    }

    /// Removes the lease from the registry after its end.
    pub(super) fn unregister(&self) {
        self.leases.registry.remove(self.id, self.keys());
    }

    /// Wakes everything that waits for the end of the lease.
    pub(crate) fn notify_ended(&self) {
        self.ended.notify_waiters();
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
        if !self.forked() {
            self.unregister();
        }
    }
}
