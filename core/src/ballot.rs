//! One round: every node is asked for its vote under a token of the round's own, and what fails is rolled back.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::node::{Ask, Claim, Fault, Fencing, IMPOSSIBLE, Reply, Taken, Vote};
use crate::quorum::{Poll, Quorum, Tally, drift};

/// A round under way. Whatever ends it without a grant, also its being dropped, sends the deletes that leave no
/// vote of it behind.
pub(crate) struct Ballot {
    pub(crate) quorum: Arc<Quorum>,
    pub(crate) claim: Claim,
    ask: Ask,
    pub(crate) started: Instant,
    pub(crate) votes: Poll<Vote>,
    kept: bool,
}

impl Ballot {
    /// Asks every node at once.
    pub(crate) fn open(quorum: &Arc<Quorum>, claim: Claim, ask: Ask) -> Self {
        let mut ballot = Self::begin(quorum, claim, ask);
        ballot.ask_others();
        ballot
    }

    /// Asks the first node that answers, and the others once it has granted: contenders who would split the
    /// votes of many nodes are told apart by one. `Err`: held by another there, for this long, and which keys.
    pub(crate) async fn scout(
        quorum: &Arc<Quorum>,
        claim: Claim,
        ask: Ask,
        patience: Duration,
    ) -> Result<Self, (Option<Duration>, Taken)> {
        let mut ballot = Self::begin(quorum, claim, ask);
        while !ballot.votes.tally.decided() && ballot.ask_next() {
            let until = (quorum.clock.now() + patience).min(ballot.started + ask.patience);
            ballot.votes.hear_last(&*quorum.clock, until).await;
            match ballot.votes.answers.last() {
                Some(Some(Ok(Vote::Held(left, taken)))) => return Err((*left, *taken)),
                Some(Some(Err(_))) => {}
                _ => break,
            }
        }
        ballot.ask_others();
        Ok(ballot)
    }

    fn begin(quorum: &Arc<Quorum>, claim: Claim, ask: Ask) -> Self {
        let votes = Poll::over(quorum.nodes.len(), |vote| matches!(vote, Vote::Granted(_)));
        let started = quorum.clock.now();
        Self { quorum: Arc::clone(quorum), claim, ask, started, votes, kept: false }
    }

    fn ask_next(&mut self) -> bool {
        let Some(node) = self.quorum.nodes.get(self.votes.answers.len()) else { return false };
        self.votes.add(believable(node.acquire(&self.claim, self.ask), self.ask.fencing));
        true
    }

    fn ask_others(&mut self) {
        while self.ask_next() {}
    }

    pub(crate) async fn count(&mut self) -> Tally {
        let quorum = Arc::clone(&self.quorum);
        self.votes.decide(&*quorum.clock, self.started + self.ask.patience).await;
        self.votes.tally
    }

    /// When the lease of this round ends for sure.
    pub(crate) fn validity_ends(&self) -> Instant {
        self.started + self.ask.ttl.saturating_sub(drift(self.ask.ttl))
    }

    /// The votes, also those still under way or not even sent, belong to a lease from now on.
    pub(crate) fn keep(&mut self) -> Poll<Vote> {
        self.kept = true;
        std::mem::replace(&mut self.votes, Poll::over(0, |_| false))
    }
}

/// A token that no rule gives is that node's fault, not everybody's next token.
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

impl Drop for Ballot {
    fn drop(&mut self) {
        // An acquire that is still listened to may be sent again after a script reload; its delete must be last.
        self.votes.deafen();
        if self.kept {
            return;
        }
        for (node, vote) in self.quorum.nodes.iter().zip(&self.votes.answers) {
            if !matches!(vote, Some(Ok(Vote::Held(..)))) {
                drop(node.release(&self.claim, self.ask.ttl));
            }
        }
    }
}
