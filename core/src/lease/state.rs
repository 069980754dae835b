//! The life of one lease: held, extended, healed, then released or lost, once and for all.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::again::Again;
use super::checks::Checks;
use super::params::{CallSite, LeaseParams, Owner};
use super::phase::{Phase, Status};
use super::registry::Registry;
use super::said::Said;
use super::validity::Validity;
use crate::clock::{Instant, NEVER};
use crate::error::{Error, LossReason};
use crate::node::{Reply, Vote, Watch};
use crate::per_process::fork_generation;
use crate::quorum::Nodes;
use crate::spans::Spans;
use crate::stats::Counts;

/// What all leases of a client in this process share.
pub(crate) struct Leases {
    /// Who is asked.
    pub(crate) nodes: Arc<Nodes>,
    /// Where changes of keys are told.
    pub(crate) watch: Arc<Watch>,
    /// Which there are. The monitor has it too, and none of the rest: it ends when nobody is left who could change a lease.
    pub(crate) registry: Arc<Registry<State>>,
    /// What became of them.
    pub(crate) counts: Arc<Counts>,
    /// Which of their locks were given back of late.
    pub(crate) again: Again,
    /// Which were said to be held for long.
    pub(crate) long: Said,
}

/// One lease's state, shared by its handles and the monitor.
pub(crate) struct State {
    /// No other lease of the client has it.
    pub(crate) id: u64,
    /// What never changes.
    pub(crate) params: LeaseParams,
    /// What it shares with the others.
    pub(crate) leases: Arc<Leases>,
    /// Of the process that made it: another is a forked child, to which it belongs no more.
    generation: u32,
    /// Where it was acquired, as its language writes it; only messages show it.
    pub(crate) call_site: OnceLock<Box<dyn CallSite>>,
    /// Who acquired it, where the language knows.
    pub(crate) owner: OnceLock<Owner>,
    /// Where its events belong, for programs that trace.
    pub(super) spans: OnceLock<Spans>,
    /// See [`super::phase`] for what may not be done under it.
    phase: Mutex<Phase>,
    /// How many checks are to be made.
    pub(super) checks: Checks,
    /// Rung when the lease ends, in whatever way.
    pub(crate) bell: Notify,
}

impl State {
    /// A lease on what a quorum granted, watched over from now on.
    pub(crate) fn new(params: LeaseParams, granted: Validity, leases: &Arc<Leases>) -> Arc<Self> {
        let phase = Phase::granted(granted);
        // Whichever is first wakes the monitor: after a slow round the deadline may come before the renewal.
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
            bell: Notify::new(),
        });
        leases.registry.add(state.id, &state.params.claim.keys, &state, first);
        state
    }

    /// Votes that may still be under way, or not even sent, belong to the lease.
    pub(crate) fn keep_votes(&self, votes: Vec<Reply<Vote>>) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether its time is over does not matter: it is the lease's end that lets go of them.
        if phase.status == Status::Held {
            phase.votes = votes;
        }
    }

    /// The client's clock.
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

    /// The parent process's, seen from a forked child: its locks may be stuck in the parent's hands.
    fn forked(&self) -> bool {
        self.generation != fork_generation()
    }

    /// The phase as it is now; time that has run out is marked as a loss here, whoever asks first. `None` in a forked child.
    pub(crate) fn phase(&self) -> Option<MutexGuard<'_, Phase>> {
        self.phase_now().map(|(phase, _)| phase)
    }

    /// The same, and when that was.
    pub(super) fn phase_now(&self) -> Option<(MutexGuard<'_, Phase>, Instant)> {
        if self.forked() {
            return None;
        }
        let lock = || self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let mut phase = lock();
        // Not before: time passes while another thread has it.
        let now = self.now();
        if phase.status == Status::Held && now >= phase.deadline {
            let reason = if phase.capped { LossReason::MaxHold } else { LossReason::Expired };
            let end = Status::Lost(reason, phase.deadline);
            self.end(&mut phase, end, now);
            // Who is told may ask at once.
            drop(phase);
            self.tell(reason);
            phase = lock();
        }
        Some((phase, now))
    }

    /// The phase while the lease is held.
    pub(crate) fn held_phase(&self) -> Option<MutexGuard<'_, Phase>> {
        self.phase().filter(|phase| phase.status == Status::Held)
    }

    /// Whether it would be held at `now`; unlike [`State::is_held`] it changes nothing.
    #[cfg(test)]
    pub(crate) fn valid_at(&self, now: Instant) -> bool {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        phase.status == Status::Held && now < phase.deadline
    }

    /// Whether somebody has noticed that it ended.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> Option<bool> {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        (phase.status != Status::Held).then_some(matches!(phase.status, Status::Lost(..)))
    }

    /// The same of [`State::is_released`].
    #[cfg(test)]
    pub(crate) fn given_back(&self) -> bool {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner).status == Status::Released
    }

    /// Whether it is ours for sure at this moment.
    pub(crate) fn is_held(&self) -> bool {
        self.held_phase().is_some()
    }

    /// Whether it was given back by its owner.
    pub(crate) fn is_released(&self) -> bool {
        self.phase().is_some_and(|phase| phase.status == Status::Released)
    }

    /// What renewals ask for; zero in a forked child.
    pub(crate) fn ttl(&self) -> Duration {
        self.phase().map_or(Duration::ZERO, |phase| phase.ttl)
    }

    /// When the lease ends unless it is extended; `None` once it ended in whatever way.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some(self.held_phase()?.deadline)
    }

    /// How long a renewal asks for; `None` where there is nothing to renew.
    pub(crate) fn renewal(&self) -> Option<Duration> {
        let phase = self.held_phase()?;
        (self.params.renew && !phase.capped).then_some(phase.ttl)
    }

    /// A third of the ttl after the round began, however long that took: it may be near, or over.
    pub(crate) fn first_renewal(&self) -> Option<Instant> {
        self.held_phase().and_then(|phase| phase.first_renewal(&self.params))
    }

    /// A quorum confirmed an extend: the deadline moves, but only forward.
    pub(crate) fn confirm(&self, granted: Validity) {
        let Some(mut phase) = self.held_phase() else { return };
        phase.deadline = phase.deadline.max(granted.ends());
        phase.capped |= granted.is_capped();
    }

    /// Lost is final: the first reason stands, and no later answer revives the lease.
    pub(crate) fn lose(&self, reason: LossReason) {
        let Some(mut phase) = self.held_phase() else { return };
        let now = self.now();
        self.end(&mut phase, Status::Lost(reason, now), now);
        drop(phase);
        self.tell(reason);
    }

    /// It is over: nobody looks after it any more.
    pub(super) fn unregister(&self) {
        self.leases.registry.remove(self.id, self.keys());
    }

    /// Whoever waits for the end of the lease has the word.
    pub(crate) fn ring(&self) {
        self.bell.notify_waiters();
    }

    /// Why it was lost, if it was.
    pub(crate) fn loss(&self) -> Option<Error> {
        let Some(phase) = self.phase() else {
            return Some(Error::lost(&self.key(), LossReason::Forked, Duration::ZERO));
        };
        let Status::Lost(reason, at) = phase.status else { return None };
        drop(phase);
        Some(Error::lost(&self.key(), reason, self.now().since(at)))
    }

    /// Why it is not held any more.
    pub(crate) fn why_over(&self) -> Error {
        self.loss().unwrap_or_else(|| Error::released(&self.key()))
    }

    /// `, acquired at CALL SITE`, where that is known.
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
