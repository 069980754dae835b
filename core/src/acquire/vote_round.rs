//! The votes of one round: every node is asked for its own, under a token of the round's own, and what fails is
//! rolled back.
//!
//! It does not know what an acquire makes of its outcome. Its one promise: a round that grants nothing leaves
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::error::NodeState;
use crate::foreground;
use crate::node::{Claim, Fault, Fencing, IMPOSSIBLE, Reply, Taken, Vote, VoteParams};
use crate::quorum::{Collect, Counts, Nodes};

/// A round under way. Whatever ends it without a grant, also its being dropped, sends the deletes that leave no
/// vote of it behind.
pub(crate) struct VoteRound {
    /// The nodes that vote.
    pub(crate) nodes: Arc<Nodes>,
    /// The claim that they vote on.
    pub(crate) claim: Claim,
    /// How.
    pub(crate) params: VoteParams,
    /// Before the first byte was sent.
    pub(crate) started: Instant,
    /// What they answered.
    pub(crate) votes: Collect<Vote>,
    /// Its votes belong to a lease: dropping it deletes nothing any more.
    kept: bool,
}

impl VoteRound {
    /// Asks every node at once. `started` is read before: no node has counted for longer than the lease does.
    pub(crate) fn open(
        nodes: &Arc<Nodes>,
        claim: Claim,
        params: VoteParams,
        started: Instant,
    ) -> Self {
        let mut round = Self::begin(nodes, claim, params, started);
        round.ask_others();
        round
    }

    /// Asks the scout, the first node that answers within `patience`, and the others once it has granted. One node
    /// decides between contenders that would otherwise split the votes of many. `Err`: how long another client holds
    /// it there, and which keys.
    ///
    /// Eight processes over five nodes hand a lock on 57 times a second without a scout, and some 2,000 times with one
    /// (`bench/waits.py contend`). Which votes make a lease is the same either way.
    pub(crate) async fn scout(
        nodes: &Arc<Nodes>,
        claim: Claim,
        params: VoteParams,
        started: Instant,
        patience: Duration,
    ) -> Result<Self, (Option<Duration>, Taken)> {
        let mut round = Self::begin(nodes, claim, params, started);
        while !round.votes.tally.decided() && round.ask_next() {
            // Of several silent scouts each would add its patience: an acquire outlived its `wait` by that.
            let until = (nodes.clock.now() + patience).min(round.started + params.timeout);
            round.votes.until_last(&*nodes.clock, until).await;
            match round.votes.answers.last() {
                Some(Some(Ok(Vote::Held(left, taken)))) => return Err((*left, *taken)),
                // An error decides nothing, so the next node is the scout.
                Some(Some(Err(_))) => {}
                // Granted, or too slow to be waited for alone.
                _ => break,
            }
        }
        round.ask_others();
        Ok(round)
    }

    /// A round that has not asked any node yet.
    fn begin(nodes: &Arc<Nodes>, claim: Claim, params: VoteParams, started: Instant) -> Self {
        let votes = Collect::over(nodes.list.len(), |vote| match vote {
            Vote::Granted(_) => Counts::Granted,
            Vote::Held(..) => Counts::Refused(NodeState::Held),
        });
        Self { nodes: Arc::clone(nodes), claim, params, started, votes, kept: false }
    }

    /// In the order of the list, because only its position identifies an answer.
    fn ask_next(&mut self) -> bool {
        let Some(node) = self.nodes.list.get(self.votes.answers.len()) else { return false };
        self.votes.add(believable(node.acquire(&self.claim, self.params), self.params.fencing));
        true
    }

    /// Every node that was not asked yet.
    fn ask_others(&mut self) {
        while self.ask_next() {}
    }

    /// Listens until the outcome is certain, or the votes' own deadline.
    pub(crate) fn count<'a>(&'a mut self, clock: &'a dyn Clock) -> impl Future<Output = ()> + 'a {
        self.votes.until_decided(clock, self.started + self.params.timeout)
    }

    /// The votes, also those still under way or not even sent, belong to a lease from now on.
    ///
    /// None of them is deleted before the lease is over: a delete that is late could take away a node that an
    /// extend has counted since.
    pub(crate) fn keep(&mut self) -> Collect<Vote> {
        self.kept = true;
        // What is left behind knows no node: its drop has nothing to stop.
        std::mem::replace(&mut self.votes, Collect::over(0, |_| Counts::Granted))
    }
}

/// A token that no rule gives is that node's fault, not everybody's next token.
///
/// Without fencing there is nothing to believe, and nothing is allocated.
fn believable(vote: Reply<Vote>, fencing: Fencing) -> Reply<Vote> {
    if fencing == Fencing::Off {
        return vote;
    }
    Box::pin(async move {
        match vote.await? {
            Vote::Granted(Some(fence)) if !fencing.can_be(fence) => Err(Fault::new(IMPOSSIBLE)),
            vote => Ok(vote),
        }
    })
}

impl Drop for VoteRound {
    fn drop(&mut self) {
        // An acquire that is still listened to may be sent again after a script reload; its delete must be last.
        // (Only requests with a listener are sent again: `node::redis::protocol`.)
        self.votes.stop_listening();
        if self.kept {
            return;
        }
        for (node, vote) in self.nodes.list.iter().zip(&self.votes.answers) {
            // An error or a missing reply may hide a grant. A clean refusal cannot.
            if !matches!(vote, Some(Ok(Vote::Held(..)))) {
                // The call sends the delete without waiting for a reply. If it cannot be sent now, it stays a pending
                // delete.
                drop(node.release(&self.claim, self.params.ttl));
            }
        }
        foreground::flush();
    }
}
