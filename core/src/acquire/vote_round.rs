//! The votes of one round, which has a separate token. A round that is not granted is rolled back.
//!
//! It guarantees that a round without a grant leaves no key. The caller decides what the result means.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::drivers;
use crate::error::NodeState;
use crate::node::{Claim, Fault, Fencing, IMPOSSIBLE, Reply, Taken, Vote, VoteParams};
use crate::quorum::{Collect, Counts, Nodes};

/// A round under way. If it ends without a grant, or is dropped, it sends deletes that remove all of its votes.
pub(crate) struct VoteRound {
    /// The nodes that vote.
    pub(crate) nodes: Arc<Nodes>,
    /// The keys and the token of the round.
    pub(crate) claim: Claim,
    /// How.
    pub(crate) params: VoteParams,
    /// Taken before the first byte was sent.
    pub(crate) started: Instant,
    /// The replies so far.
    pub(crate) votes: Collect<Vote>,
    /// Whether the votes belong to a lease. Dropping the round then deletes nothing.
    kept: bool,
}

impl VoteRound {
    /// Sends the request to every node at once. `started` is read before, so that no node ends its TTL before the lease
    /// ends.
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

    /// Sends the request to the scout, the first node that replies within `scout_timeout`, and to the others once it
    /// has granted. One node then decides between contenders that would otherwise split the votes. If another client
    /// holds keys there, returns for how long, and which ones.
    ///
    /// The scout does not change which votes make a lease. For its effect see `bench/waits.py contend`.
    pub(crate) async fn scout(
        nodes: &Arc<Nodes>,
        claim: Claim,
        params: VoteParams,
        started: Instant,
        scout_timeout: Duration,
    ) -> Result<Self, (Option<Duration>, Taken)> {
        let mut round = Self::begin(nodes, claim, params, started);
        while !round.votes.tally.decided() && round.ask_next() {
            // One deadline for all scouts. With one each, several silent scouts could exceed the `wait` of the acquire.
            let until = (nodes.clock.now() + scout_timeout).min(round.started + params.timeout);
            round.votes.until_last(&*nodes.clock, until).await;
            match round.votes.answers.last() {
                Some(Some(Ok(Vote::Held(left, taken)))) => return Err((*left, *taken)),
                // An error decides nothing, so the next node is the scout.
                Some(Some(Err(_))) => {}
                // Granted, or too slow to wait for it alone.
                _ => break,
            }
        }
        round.ask_others();
        Ok(round)
    }

    /// Creates a round that has sent no request.
    fn begin(nodes: &Arc<Nodes>, claim: Claim, params: VoteParams, started: Instant) -> Self {
        let votes = Collect::over(nodes.list.len(), |vote| match vote {
            Vote::Granted(_) => Counts::Granted,
            Vote::Held(..) => Counts::Refused(NodeState::Held),
        });
        Self { nodes: Arc::clone(nodes), claim, params, started, votes, kept: false }
    }

    /// Sends the request to the next node. Uses the order of the list, because the position identifies a reply.
    fn ask_next(&mut self) -> bool {
        let Some(node) = self.nodes.list.get(self.votes.answers.len()) else { return false };
        self.votes.add(believable(node.acquire(&self.claim, self.params), self.params.fencing));
        true
    }

    /// Sends the request to every remaining node.
    fn ask_others(&mut self) {
        while self.ask_next() {}
    }

    /// Collects votes until the outcome is certain or the votes time out.
    pub(crate) fn count<'a>(&'a mut self, clock: &'a dyn Clock) -> impl Future<Output = ()> + 'a {
        self.votes.until_decided(clock, self.started + self.params.timeout)
    }

    /// Makes the votes part of a lease, including those that are under way or not sent yet.
    ///
    /// None of them is deleted before the lease ends. A late delete could remove a key that an extend has counted
    /// since.
    pub(crate) fn keep(&mut self) -> Collect<Vote> {
        self.kept = true;
        // The empty collection has no replies to stop on drop.
        std::mem::replace(&mut self.votes, Collect::over(0, |_| Counts::Granted))
    }
}

/// Turns a fencing token that the rule cannot produce into an error of that node, so that no later token builds on it.
///
/// Without fencing it returns the vote unchanged and allocates nothing.
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
        // An acquire whose reply is still awaited may be sent again after a script reload. Its delete must be last, so
        // the round stops listening first.
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
        drivers::flush();
    }
}
