//! One question to every node: the answers as they come, counted, until the outcome is certain.
//!
//! It knows neither what is asked nor whom: `read` says how an answer counts, and nodes are places in a list.
//! It spawns nothing: answers are taken by whoever waits, and a wait that is dropped loses none of those that
//! came.

use std::future::poll_fn;
use std::task::{self, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::coop::unconstrained;

use super::tally::Tally;
use crate::clock::{Clock, Instant};
use crate::error::{Cause, NodeState, seconds};
use crate::foreground;
use crate::node::{Fault, Reply};

/// How an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// As a yes.
    Granted,
    /// As a no, which a report calls so.
    Refused(NodeState),
}

/// One of each node: nearly every client has one node, of which nothing is kept on the heap.
type PerNode<T> = SmallVec<[T; 1]>;

/// One question to every node: the answers as far as they came, and the count.
pub(crate) struct Collect<T> {
    /// In the order in which the nodes were asked. Dropping one unsends nothing.
    replies: PerNode<Reply<T>>,
    /// How an answer counts, and what a report calls it.
    read: fn(&T) -> Counts,
    /// The answers so far, counted.
    pub(crate) tally: Tally,
    /// By the nodes' places in the list; `None`: not there yet.
    pub(crate) answers: PerNode<Option<Result<T, Fault>>>,
    /// The deadline came before a decision: those that had not answered are faults.
    /// Until then they are only `pending` in a report: others had decided before them.
    silence_counts: bool,
}

impl<T> Collect<T> {
    /// A question that every node was asked; `read` says how an answer counts.
    pub(crate) fn new(
        replies: impl ExactSizeIterator<Item = Reply<T>>,
        read: fn(&T) -> Counts,
    ) -> Self {
        let mut collect = Self::over(replies.len(), read);
        for reply in replies {
            collect.add(reply);
        }
        collect
    }

    /// A question to so many nodes, none of which was asked yet.
    pub(crate) fn over(nodes: usize, read: fn(&T) -> Counts) -> Self {
        let (replies, answers) = (PerNode::with_capacity(nodes), PerNode::with_capacity(nodes));
        Self { replies, read, tally: Tally::new(nodes), answers, silence_counts: false }
    }

    /// The next node was asked.
    pub(crate) fn add(&mut self, reply: Reply<T>) {
        self.replies.push(reply);
        self.answers.push(None);
    }

    /// Stops listening; what was asked stays asked.
    ///
    /// Answers that came stay; a wait after this ends by its deadline alone.
    pub(crate) fn stop_listening(&mut self) {
        self.replies.clear();
    }

    /// What has not been answered: whoever keeps it still listens.
    pub(crate) fn unanswered(self) -> Vec<Reply<T>> {
        let asked = self.replies.into_iter().zip(self.answers);
        asked.filter_map(|(reply, answer)| answer.is_none().then_some(reply)).collect()
    }

    /// Whether a node gave this answer.
    pub(crate) fn has(&self, answer: T) -> bool
    where
        T: PartialEq,
    {
        self.answers.contains(&Some(Ok(answer)))
    }

    /// Waits for the answer of the node that was asked last.
    pub(crate) fn until_last<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        let last = |this: &Self| this.answers.last().is_some_and(Option::is_some);
        self.until(clock, deadline, last, |_| {})
    }

    /// Collects answers until the outcome is certain or the deadline is there; by then silence is a fault.
    pub(crate) fn until_decided<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        self.until(clock, deadline, |this| this.tally.decided(), Self::silence_counts)
    }

    /// Whether nodes without an answer are faults.
    pub(super) fn is_silence_counted(&self) -> bool {
        self.silence_counts
    }

    /// Whoever has not answered by now is a fault.
    pub(crate) fn silence_counts(&mut self) {
        self.silence_counts = true;
        self.answers.iter().filter(|answer| answer.is_none()).for_each(|_| self.tally.fault());
    }

    /// Collects answers until a quorum says yes, so many say no that none can, or all have answered or had the time to.
    ///
    /// Unlike [`Collect::until_decided`] it goes on while a quorum is out of reach: one dead node must not hide
    /// that all who live say no.
    pub(crate) fn until_judged<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        let clear = |this: &Self| this.tally.met() || this.tally.denied() || this.is_complete();
        self.until(clock, deadline, clear, Self::silence_counts)
    }

    /// Whether every node has answered.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Collects the answers that a decision did not need, until the deadline.
    ///
    /// Silence is no fault here: whoever thinks otherwise says so by [`Collect::silence_counts`].
    pub(crate) fn until_complete<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        self.until(clock, deadline, Self::is_complete, |_| {})
    }

    /// What each node said, in the words of `NodeReport::state` and in the fault's own; silence is a fault where it
    /// counts as one, after so much `timeout`.
    pub(super) fn words(
        &self,
        timeout: Duration,
    ) -> impl Iterator<Item = (NodeState, Option<String>, Option<Cause>)> {
        self.answers.iter().map(move |answer| match answer {
            Some(Ok(value)) => match (self.read)(value) {
                Counts::Granted => (NodeState::Granted, None, None),
                Counts::Refused(state) => (state, None, None),
            },
            Some(Err(fault)) => (NodeState::Fault, Some(fault.to_string()), fault.cause()),
            None if self.silence_counts => {
                (NodeState::Fault, Some(format!("no answer within {}", seconds(timeout))), None)
            }
            None => (NodeState::Pending, None, None),
        })
    }

    /// Waits for `enough`, or the deadline. Answers that are there are taken before the clock is looked at: one
    /// that came in time counts, however late this runs.
    ///
    /// `late` is called where the deadline came first. No async function, as its callers are none: each of them would hold
    /// what it was called with twice, in the future of every acquire.
    fn until<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
        enough: impl Fn(&Self) -> bool + 'a,
        late: impl Fn(&mut Self) + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let mut timer = None;
        // Not counted by tokio: whoever awaits thousands in one task (`join_all`, the monitor) would have 128 go on in a turn,
        // and all others polled for nothing and woken again, which is quadratic. Each of them waits for a node all the same.
        unconstrained(poll_fn(move |cx| {
            self.take_ready(cx);
            if enough(self) {
                return Poll::Ready(());
            }
            // Made only where something is still to come: most of what is asked in memory needs none.
            let timer = timer.get_or_insert_with(|| clock.sleep_until(deadline));
            let over = timer.as_mut().poll(cx).map(|()| late(self));
            foreground::flush();
            over
        }))
    }

    /// Polls whoever has not answered: nodes are few, and a finished reply must not be polled again.
    fn take_ready(&mut self, cx: &mut task::Context<'_>) {
        for (reply, slot) in self.replies.iter_mut().zip(&mut self.answers) {
            if slot.is_none()
                && let Poll::Ready(answer) = reply.as_mut().poll(cx)
            {
                match &answer {
                    Ok(value) if (self.read)(value) == Counts::Granted => self.tally.grant(),
                    Ok(_) => self.tally.refuse(),
                    Err(_) => self.tally.fault(),
                }
                *slot = Some(answer);
            }
        }
    }
}
