//! What a lease asks of its nodes: to extend it, to take it back, to give it up.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::{Phase, State, Status};
use crate::clock::Instant;
use crate::error::{Error, LossReason, Result};
use crate::extend::{Verdict, verdict};
use crate::node::{Ask, Change, Extension, Fencing};
use crate::quorum::{Poll, drift};

/// An extend round under way: its votes, what was asked, and when.
pub(crate) type Sent = (Poll<Extension>, Ask, Instant);

impl State {
    /// Whatever is asked for a lease that is ours keeps its fencing token from being forgotten.
    /// A frozen node is waited for so briefly that the renewal after this one comes in time, also where the ttl was
    /// shortened below what `node_timeout` was made for.
    fn ask(&self, phase: &mut Phase, ttl: Duration) -> Ask {
        let fencing = Fencing::keep(self.terms.fence);
        let patience = self.terms.node_timeout.min(phase.ttl / 5);
        phase.longest = phase.longest.max(ttl);
        Ask { ttl, patience, first: false, likely: false, fencing }
    }

    /// Sends an extend by `ttl` from now, cut at `max_hold`; `None` if the lease is over.
    /// What is sent is sent under the lease's lock, so that no extend or heal follows the release.
    pub(crate) fn send_extend(&self, ttl: Duration) -> Option<Sent> {
        let mut phase = self.held_phase()?;
        let started = self.now();
        let left = self.terms.hold_end.map_or(ttl, |end| end.since(started));
        let ask = self.ask(&mut phase, ttl.min(left));
        // What was not even sent of the first votes is asked for by this.
        phase.votes = None;
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

    /// Gives the lease back to nodes that lacked it in both rounds, of which each showed that a quorum has it.
    pub(crate) fn heal(&self, rounds: [&Poll<Extension>; 2]) {
        let Some(mut phase) = self.held_phase() else {
            return;
        };
        let left = phase.deadline.since(self.now());
        let ask = self.ask(&mut phase, left);
        let missing = |round: &Poll<Extension>, at: usize| {
            matches!(round.answers[at], Some(Ok(Extension::Missing)))
        };
        for (at, node) in self.quorum.nodes.iter().enumerate() {
            if rounds.iter().all(|round| missing(round, at)) {
                drop(node.acquire(&self.terms.claim, ask));
            }
        }
    }

    pub(crate) async fn extend(self: Arc<Self>, ttl: Duration, sent: Option<Sent>) -> Result<()> {
        let Some((mut poll, ask, started)) = sent else {
            return Err(self.over());
        };
        match verdict(&mut poll, &*self.quorum.clock, started + ask.patience).await {
            Verdict::Extended => {
                self.confirm(started, ask.ttl, ttl);
                let Some(mut phase) = self.held_phase() else { return Err(self.over()) };
                phase.ttl = ttl;
                Ok(())
            }
            Verdict::Gone(reason) => {
                self.lose(reason);
                Err(self.over())
            }
            Verdict::Unknown => {
                let nodes = self.quorum.report(&poll, ask.patience);
                Err(Error::unavailable(&self.key(), "not extended", nodes))
            }
        }
    }

    /// Ends the lease and sends the deletes; `Err` if it had been lost, `Ok(None)` if it was over already.
    pub(crate) fn send_release(&self) -> Result<Option<Poll<bool>>> {
        let Some(phase) = self.phase() else {
            return Err(self.over());
        };
        let lost = matches!(phase.status, Status::Lost(..));
        let poll = self.send_deletes(phase, Status::Released);
        if lost { Err(self.over()) } else { Ok(poll) }
    }

    /// Gives the lease back under whoever holds it, who is told of a loss; `None` if it was over already.
    pub(crate) fn take_back(&self) -> Option<Poll<bool>> {
        let phase = self.held_phase()?;
        let poll = self.send_deletes(phase, Status::Lost(LossReason::Released, self.now()));
        self.tell(LossReason::Released);
        poll
    }

    /// Sends the deletes, once; a lease that was held ends as `end`.
    ///
    /// Everybody who runs under the token has the word before the first delete is sent: another may hold right after it.
    /// No extend or heal can follow, as these look at the status under the lease's lock.
    fn send_deletes(&self, mut phase: MutexGuard<'_, Phase>, end: Status) -> Option<Poll<bool>> {
        let held = phase.status == Status::Held;
        let unsent = (held || matches!(phase.status, Status::Lost(..))) && !phase.deleted;
        // The ttl of the last extend may be shorter than what an earlier one left on the keys.
        let left = phase.deadline.since(self.now());
        let owed = phase.longest.max(left + drift(left));
        // A vote that is listened to may be sent again after a script reload; the delete must be last.
        phase.votes = None;
        phase.deleted |= unsent;
        if held {
            phase.status = end;
        }
        drop(phase);
        self.keeper.forget(self);
        self.ring();
        if !unsent {
            return None;
        }
        let tell =
            || self.keeper.twins(self).iter().for_each(|twin| twin.lose(LossReason::Released));
        tell();
        let poll = self.quorum.release(&self.terms.claim, owed, !held);
        // What a local waiter asks now goes behind the delete on the same connections.
        let keys = self.terms.claim.keys.iter();
        keys.for_each(|key| self.watch.wake(&Change::Key(key.clone())));
        // Whoever has attached to the token meanwhile.
        tell();
        Some(poll)
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
