//! The life of one lease: held, extended, healed, then released or lost, once and for all.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::background::fork_generation;
use crate::clock::Instant;
use crate::error::{Error, LossReason, seconds};
use crate::keeper::Keeper;
use crate::log;
use crate::node::{Claim, Vote, Watch};
use crate::options::Unit;
use crate::quorum::{Poll, Quorum};

mod requests;

/// How many checks of a lease are to be made.
const NO_CHECK: u8 = 0;
const ONE_CHECK: u8 = 1;
const ONE_MORE: u8 = 2;

/// What a lease is made with and what never changes in it.
pub(crate) struct Terms {
    pub(crate) claim: Claim,
    pub(crate) acquired: Instant,
    /// The fencing token, where one was asked for.
    pub(crate) fence: Option<u64>,
    pub(crate) renew: bool,
    pub(crate) hold_end: Option<Instant>,
    pub(crate) node_timeout: Duration,
    pub(crate) guard: Duration,
    pub(crate) unit: Unit,
}

/// Who asks for a lock or holds it inside its process, where the language knows: a word for messages ("this thread")
/// and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub &'static str, pub u64);

/// One lease's state, shared by its handles and the keeper.
pub(crate) struct State {
    pub(crate) id: u64,
    pub(crate) terms: Terms,
    pub(crate) quorum: Arc<Quorum>,
    watch: Arc<Watch>,
    pub(crate) keeper: Arc<Keeper>,
    generation: u32,
    /// Where it was acquired, as its language writes it; only messages show it.
    pub(crate) place: OnceLock<Box<dyn Display + Send + Sync>>,
    pub(crate) owner: OnceLock<Owner>,
    phase: Mutex<Phase>,
    checks: AtomicU8,
    pub(crate) bell: Notify,
}

pub(crate) struct Phase {
    pub(crate) status: Status,
    /// Ours for sure until then; it only moves forward.
    deadline: Instant,
    pub(crate) ttl: Duration,
    /// The last grant was cut short by `max_hold`.
    capped: bool,
    deleted: bool,
    warned: bool,
    /// The longest that the keys may live by what was asked for, confirmed or not.
    longest: Duration,
    /// First votes that a quorum did not wait for: listened to so that those of nodes that still connect are sent.
    votes: Option<Poll<Vote>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Held,
    Released,
    Abandoned,
    Lost(LossReason, Instant),
}

impl State {
    pub(crate) fn new(
        terms: Terms,
        (deadline, ttl, capped): (Instant, Duration, bool),
        quorum: &Arc<Quorum>,
        watch: &Arc<Watch>,
        keeper: &Arc<Keeper>,
    ) -> Arc<Self> {
        let phase = Phase {
            status: Status::Held,
            deadline,
            ttl,
            capped,
            deleted: false,
            warned: false,
            longest: ttl,
            votes: None,
        };
        let state = Arc::new(Self {
            id: keeper.new_id(),
            terms,
            quorum: Arc::clone(quorum),
            watch: Arc::clone(watch),
            keeper: Arc::clone(keeper),
            generation: fork_generation(),
            place: OnceLock::new(),
            owner: OnceLock::new(),
            phase: Mutex::new(phase),
            checks: AtomicU8::new(NO_CHECK),
            bell: Notify::new(),
        });
        keeper.track(&state);
        state
    }

    /// Votes that may still be under way, or not even sent, belong to the lease.
    pub(crate) fn keep_votes(&self, votes: Poll<Vote>) {
        if let Some(mut phase) = self.held_phase() {
            phase.votes = Some(votes);
        }
    }

    /// Whether a check is to be started: one that is under way is made once more instead.
    pub(crate) fn wants_check(&self) -> bool {
        let more = |checks| Some(if checks == NO_CHECK { ONE_CHECK } else { ONE_MORE });
        self.checks.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) == Ok(NO_CHECK)
    }

    /// A check is over; whether it is to be made once more.
    pub(crate) fn checked(&self) -> bool {
        let less = |checks| Some(if checks == ONE_MORE { ONE_CHECK } else { NO_CHECK });
        self.checks.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(ONE_MORE)
    }

    pub(crate) fn now(&self) -> Instant {
        self.quorum.clock.now()
    }

    pub(crate) fn key(&self) -> String {
        self.terms.claim.keys.join(", ")
    }

    /// The parent process's, seen from a forked child: its locks may be stuck in the parent's hands.
    fn forked(&self) -> bool {
        self.generation != fork_generation()
    }

    /// The phase as it is now; time that has run out is marked as a loss here, whoever asks first.
    /// `None` in a forked child.
    pub(crate) fn phase(&self) -> Option<MutexGuard<'_, Phase>> {
        if self.forked() {
            return None;
        }
        let lock = || self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let mut phase = lock();
        if phase.status == Status::Held && self.now() >= phase.deadline {
            let reason = if phase.capped { LossReason::MaxHold } else { LossReason::Expired };
            phase.status = Status::Lost(reason, phase.deadline);
            // Who is told may ask at once.
            drop(phase);
            self.tell(reason);
            phase = lock();
        }
        Some(phase)
    }

    /// The phase while the lease is held.
    pub(crate) fn held_phase(&self) -> Option<MutexGuard<'_, Phase>> {
        self.phase().filter(|phase| phase.status == Status::Held)
    }

    /// Whether it would be held at `now`; unlike [`State::held`] it changes nothing.
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

    pub(crate) fn held(&self) -> bool {
        self.held_phase().is_some()
    }

    /// When the lease ends unless it is extended; `None` once it ended in whatever way.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held_phase().map(|phase| phase.deadline)
    }

    /// How long a renewal asks for; `None` where there is nothing to renew.
    pub(crate) fn renewal(&self) -> Option<Duration> {
        let phase = self.held_phase()?;
        (self.terms.renew && !phase.capped).then_some(phase.ttl)
    }

    /// Lost is final: the first reason stands, and no later answer revives the lease.
    pub(crate) fn lose(&self, reason: LossReason) {
        let Some(mut phase) = self.held_phase() else {
            return;
        };
        phase.status = Status::Lost(reason, self.now());
        drop(phase);
        self.tell(reason);
    }

    /// Whoever waits for the end of the lease has the word.
    pub(crate) fn ring(&self) {
        self.bell.notify_waiters();
    }

    /// However it was lost, whoever waits for the word has it, and the log says so.
    pub(crate) fn tell(&self, reason: LossReason) {
        self.ring();
        log::event!(WARN, { key: self.key(), reason: reason.as_str() }, "lease lost");
    }

    pub(crate) fn loss(&self) -> Option<Error> {
        let Some(phase) = self.phase() else {
            return Some(Error::lost(&self.key(), LossReason::Forked, Duration::ZERO));
        };
        let Status::Lost(reason, at) = phase.status else {
            return None;
        };
        drop(phase);
        Some(Error::lost(&self.key(), reason, self.now().since(at)))
    }

    pub(crate) fn over(&self) -> Error {
        self.loss().unwrap_or_else(|| Error::released(&self.key()))
    }

    /// `, acquired at PLACE`, where the place is known.
    pub(crate) fn acquired_at(&self) -> String {
        self.place.get().map_or_else(String::new, |place| format!(", acquired at {place}"))
    }

    /// A body that takes many times its ttl is renewed for as long as it runs; somebody should know.
    pub(crate) fn warn_if_long(&self) {
        let Some(mut phase) = self.held_phase() else {
            return;
        };
        let held = self.now().since(self.terms.acquired);
        if !phase.warned && held > phase.ttl.saturating_mul(10) {
            phase.warned = true;
            drop(phase);
            log::event!(
                WARN, { key: self.key(), held: seconds(held) }, "held for more than ten times its ttl{place}",
                place = self.acquired_at()
            );
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if !self.forked() {
            self.keeper.forget(self);
        }
    }
}
