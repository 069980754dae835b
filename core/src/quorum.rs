//! Ask every node at once, count, stop as soon as the outcome is certain, clean up.

use std::future::poll_fn;
use std::sync::Arc;
use std::task;
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::error::{NodeReport, seconds};
use crate::node::{Ask, Claim, Extension, Fault, Node, Reply};

/// The arithmetic of a vote: pure, no I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    nodes: usize,
    granted: usize,
    refused: usize,
    faults: usize,
}

impl Tally {
    /// An empty tally over this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Counts a node that granted.
    pub fn grant(&mut self) {
        self.granted += 1;
    }

    /// Counts a node that cleanly refused.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Counts a node that gave no answer that counts.
    pub fn fault(&mut self) {
        self.faults += 1;
    }

    /// More than half of the nodes.
    pub fn quorum(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// A quorum granted.
    pub fn met(&self) -> bool {
        self.granted >= self.quorum()
    }

    /// The nodes that have not refused or failed could still make a quorum.
    pub fn can_be_met(&self) -> bool {
        self.nodes - self.refused - self.faults >= self.quorum()
    }

    /// So many nodes refused that no answer of the others could make a quorum.
    pub fn denied(&self) -> bool {
        self.nodes - self.refused < self.quorum()
    }

    /// So many nodes are faults that no quorum is possible, whoever holds the lock.
    pub fn unavailable(&self) -> bool {
        self.nodes - self.faults < self.quorum()
    }

    pub(crate) fn decided(&self) -> bool {
        self.met() || !self.can_be_met()
    }
}

/// What is taken off a lease of this ttl, so that the rest is left for sure: clocks may run at rates that differ by 1 %, and expiry has
/// a granularity of 1 ms on each side. The rule is the Redis documentation's, "Distributed Locks with Redis".
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// One question to every node: the answers as far as they came, and the count.
pub(crate) struct Poll<T> {
    replies: Vec<Reply<T>>,
    yes: fn(&T) -> bool,
    pub(crate) tally: Tally,
    pub(crate) answers: Vec<Option<Result<T, Fault>>>,
    /// The deadline came before a decision: those that had not answered are faults.
    silence_counts: bool,
}

impl<T> Poll<T> {
    pub(crate) fn new(replies: Vec<Reply<T>>, yes: fn(&T) -> bool) -> Self {
        let mut poll = Self::over(replies.len(), yes);
        for reply in replies {
            poll.add(reply);
        }
        poll
    }

    /// A question to so many nodes, none of which was asked yet.
    pub(crate) fn over(nodes: usize, yes: fn(&T) -> bool) -> Self {
        let (replies, answers) = (Vec::with_capacity(nodes), Vec::with_capacity(nodes));
        Self { replies, yes, tally: Tally::new(nodes), answers, silence_counts: false }
    }

    /// The next node was asked.
    pub(crate) fn add(&mut self, reply: Reply<T>) {
        self.replies.push(reply);
        self.answers.push(None);
    }

    /// Stops listening; what was asked stays asked.
    pub(crate) fn deafen(&mut self) {
        self.replies.clear();
    }

    /// Whether a node gave this answer.
    pub(crate) fn has(&self, answer: T) -> bool
    where
        T: PartialEq,
    {
        self.answers.contains(&Some(Ok(answer)))
    }

    /// Waits for the answer of the node that was asked last.
    pub(crate) async fn hear_last(&mut self, clock: &dyn Clock, deadline: Instant) {
        self.collect(clock, deadline, |poll| poll.answers.last().is_some_and(Option::is_some))
            .await;
    }

    /// Collects answers until the outcome is certain or the deadline is there; by then silence is a fault.
    pub(crate) async fn decide(&mut self, clock: &dyn Clock, deadline: Instant) {
        self.collect(clock, deadline, |poll| poll.tally.decided()).await;
        if !self.tally.decided() {
            self.silence_counts();
        }
    }

    /// Whoever has not answered by now is a fault.
    pub(crate) fn silence_counts(&mut self) {
        self.silence_counts = true;
        self.answers.iter().filter(|answer| answer.is_none()).for_each(|_| self.tally.fault());
    }

    /// Collects answers until a quorum says yes, so many say no that none can, or all have answered or had the time to.
    pub(crate) async fn settle(&mut self, clock: &dyn Clock, deadline: Instant) {
        let clear = |poll: &Self| poll.tally.met() || poll.tally.denied() || poll.is_complete();
        self.collect(clock, deadline, clear).await;
        if !clear(self) {
            self.silence_counts();
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Collects the answers that a decision did not need, until the deadline.
    pub(crate) async fn complete(&mut self, clock: &dyn Clock, deadline: Instant) {
        self.collect(clock, deadline, Self::is_complete).await;
    }

    async fn collect(&mut self, clock: &dyn Clock, deadline: Instant, enough: fn(&Self) -> bool) {
        let mut timer = None;
        poll_fn(|cx| {
            self.take_ready(cx);
            if enough(self) {
                return task::Poll::Ready(());
            }
            let timer = timer.get_or_insert_with(|| clock.sleep_until(deadline));
            timer.as_mut().poll(cx)
        })
        .await;
    }

    fn take_ready(&mut self, cx: &mut task::Context<'_>) {
        for (reply, slot) in self.replies.iter_mut().zip(&mut self.answers) {
            if slot.is_none()
                && let task::Poll::Ready(answer) = reply.as_mut().poll(cx)
            {
                match &answer {
                    Ok(value) if (self.yes)(value) => self.tally.grant(),
                    Ok(_) => self.tally.refuse(),
                    Err(_) => self.tally.fault(),
                }
                *slot = Some(answer);
            }
        }
    }
}

/// The nodes of one client.
pub(crate) struct Quorum {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Quorum {
    /// Sends an extend to every node, now.
    pub(crate) fn extend(&self, claim: &Claim, ask: Ask) -> Poll<Extension> {
        let replies = self.nodes.iter().map(|node| node.extend(claim, ask)).collect();
        Poll::new(replies, |answer| *answer == Extension::Extended)
    }

    /// Sends a release to every node, now. `owed` is by when the keys have expired anyway; `late`: they probably have.
    pub(crate) fn release(&self, claim: &Claim, owed: Duration, late: bool) -> Poll<bool> {
        let nodes = self.nodes.iter();
        let replies = if late {
            nodes.map(|node| node.release_late(claim, owed)).collect()
        } else {
            nodes.map(|node| node.release(claim, owed)).collect()
        };
        Poll::new(replies, |deleted| *deleted)
    }

    /// What is wrong with the caller's own options, with the node that says so first, if so many nodes do that no quorum
    /// is left: a minority with somebody's data under the key is only as bad as if it were down.
    pub(crate) fn invalid<T>(&self, poll: &Poll<T>) -> Option<String> {
        let answers = self.nodes.iter().zip(&poll.answers);
        let mut faults = answers.filter_map(|(node, answer)| match answer {
            Some(Err(fault)) if fault.is_invalid() => Some((node, fault)),
            _ => None,
        });
        let spare = self.nodes.len() - poll.tally.quorum();
        let (node, fault) = faults.clone().nth(spare).and(faults.next())?;
        Some(format!("{}: {fault}", node.url()))
    }

    /// What each node said, for an error. The silent were listened to for `patience`.
    pub(crate) fn report<T>(&self, poll: &Poll<T>, patience: Duration) -> Vec<NodeReport> {
        let report = |(node, answer): (&Arc<dyn Node>, &Option<Result<T, Fault>>)| {
            let (state, error) = match answer {
                Some(Ok(value)) if (poll.yes)(value) => ("granted", None),
                Some(Ok(_)) => ("held", None),
                Some(Err(fault)) => ("fault", Some(fault.to_string())),
                None if poll.silence_counts => {
                    ("fault", Some(format!("no answer within {}", seconds(patience))))
                }
                None => ("pending", None),
            };
            NodeReport { url: node.url().to_owned(), state, error }
        };
        self.nodes.iter().zip(&poll.answers).map(report).collect()
    }
}
