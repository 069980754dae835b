//! The life of one lease: held, extended, healed, then released or lost, once and for all.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::background::fork_generation;
use crate::clock::Instant;
use crate::error::{Error, LossReason, Result, seconds};
use crate::node::{Ask, Change, Claim, Extension, Fencing, Watch};
use crate::options::Unit;
use crate::quorum::{Poll, Quorum, drift};
use crate::renew::Keeper;

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
    phase: Mutex<Phase>,
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
        let phase =
            Phase { status: Status::Held, deadline, ttl, capped, deleted: false, warned: false };
        let state = Arc::new(Self {
            id: keeper.new_id(),
            terms,
            quorum: Arc::clone(quorum),
            watch: Arc::clone(watch),
            keeper: Arc::clone(keeper),
            generation: fork_generation(),
            place: OnceLock::new(),
            phase: Mutex::new(phase),
            bell: Notify::new(),
        });
        keeper.track(&state);
        state
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
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if phase.status == Status::Held && self.now() >= phase.deadline {
            let reason = if phase.capped { LossReason::MaxHold } else { LossReason::Expired };
            phase.status = Status::Lost(reason, phase.deadline);
            self.tell(reason);
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

    /// However it was lost, whoever waits for the word has it, and the log says so.
    fn tell(&self, reason: LossReason) {
        self.bell.notify_waiters();
        let key = self.key();
        tracing::warn!(target: "redlock", %key, reason = reason.as_str(), "lease lost");
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
        if !phase.warned && held > phase.ttl * 10 {
            phase.warned = true;
            drop(phase);
            let (key, held, place) = (self.key(), seconds(held), self.acquired_at());
            tracing::warn!(target: "redlock", %key, %held, "held for more than ten times its ttl{place}");
        }
    }

    /// Whatever is asked for a lease that is ours keeps its fencing token from being forgotten.
    fn ask(&self, ttl: Duration) -> Ask {
        let fencing = Fencing::keep(self.terms.fence);
        Ask { ttl, patience: self.terms.node_timeout, first: false, likely: false, fencing }
    }

    /// Sends an extend by `ttl` from now, cut at `max_hold`; `None` if the lease is over.
    /// What is sent is sent under the lease's lock, so that no extend or heal follows the release.
    pub(crate) fn send_extend(&self, ttl: Duration) -> Option<Sent> {
        let _phase = self.held_phase()?;
        let started = self.now();
        let left = self.terms.hold_end.map_or(ttl, |end| end.since(started));
        let ask = self.ask(ttl.min(left));
        Some((self.quorum.extend(&self.terms.claim, ask), ask, started))
    }

    /// A quorum confirmed an extend that was sent at `started`: the deadline moves, but only forward.
    pub(crate) fn confirm(&self, started: Instant, asked: Duration, wanted: Duration) {
        let Some(mut phase) = self.held_phase() else {
            return;
        };
        phase.deadline = phase.deadline.max(started + asked.saturating_sub(drift(asked)));
        phase.capped |= asked < wanted;
    }

    /// Gives the lease back to nodes that had lost it, after a quorum confirmed that it is ours.
    pub(crate) fn heal(&self, poll: &Poll<Extension>) {
        let Some(phase) = self.held_phase() else {
            return;
        };
        let ttl = phase.deadline.since(self.now());
        let ask = self.ask(ttl);
        for (node, answer) in self.quorum.nodes.iter().zip(&poll.answers) {
            if matches!(answer, Some(Ok(Extension::Missing))) {
                drop(node.acquire(&self.terms.claim, ask));
            }
        }
    }

    /// Why a quorum's answers mean that the lease is gone.
    pub(crate) fn loss_reason(poll: &Poll<Extension>) -> LossReason {
        let mut answers = poll.answers.iter().flatten().flatten();
        if answers.clone().any(|answer| *answer == Extension::Taken) {
            LossReason::Taken
        } else if answers.any(|answer| *answer == Extension::Extended) {
            LossReason::Quorum
        } else {
            LossReason::Missing
        }
    }

    pub(crate) fn over(&self) -> Error {
        self.loss().unwrap_or_else(|| Error::released(&self.key()))
    }

    pub(crate) async fn extend(self: Arc<Self>, ttl: Duration, sent: Option<Sent>) -> Result<()> {
        let Some((mut poll, ask, started)) = sent else {
            return Err(self.over());
        };
        poll.decide(&*self.quorum.clock, started + ask.patience).await;
        if poll.tally.met() {
            self.confirm(started, ask.ttl, ttl);
            return if self.held() { Ok(()) } else { Err(self.over()) };
        }
        if poll.tally.denied() {
            self.lose(Self::loss_reason(&poll));
            return Err(self.over());
        }
        let nodes = self.quorum.report(&poll, ask.patience);
        Err(Error::unavailable(&self.key(), "not extended", nodes))
    }

    /// Ends the lease and sends the deletes; `Err` if it had been lost, `Ok(None)` if it was over already.
    pub(crate) fn send_release(&self) -> Result<Option<Poll<bool>>> {
        let Some(mut phase) = self.phase() else {
            return Err(self.over());
        };
        let status = phase.status;
        let unsent = matches!(status, Status::Held | Status::Lost(..)) && !phase.deleted;
        // The ttl of the last extend may be shorter than what an earlier one left on the keys.
        let left = phase.deadline.since(self.now());
        let owed = phase.ttl.max(left + drift(left));
        let poll = unsent.then(|| self.quorum.release(&self.terms.claim, owed));
        phase.deleted |= unsent;
        if status == Status::Held {
            phase.status = Status::Released;
        }
        drop(phase);
        self.keeper.forget(self);
        if unsent {
            // What a local waiter asks now goes behind the delete on the same connections.
            let keys = self.terms.claim.keys.iter();
            keys.for_each(|key| self.watch.wake(&Change::Key(key.clone())));
        }
        if matches!(status, Status::Lost(..)) { Err(self.over()) } else { Ok(poll) }
    }

    pub(crate) async fn released(self: Arc<Self>, sent: Result<Option<Poll<bool>>>) -> Result<()> {
        let Some(mut poll) = sent? else { return Ok(()) };
        let patience = self.terms.node_timeout;
        poll.decide(&*self.quorum.clock, self.now() + patience).await;
        if poll.tally.met() {
            return Ok(());
        }
        if poll.tally.denied() {
            return Err(Error::lost(&self.key(), LossReason::Missing, Duration::ZERO));
        }
        let nodes = self.quorum.report(&poll, patience);
        Err(Error::unavailable(&self.key(), "release not confirmed", nodes))
    }
}

pub(crate) type Sent = (Poll<Extension>, Ask, Instant);

impl Drop for State {
    fn drop(&mut self) {
        if !self.forked() {
            self.keeper.forget(self);
        }
    }
}
