//! One acquire from its first round to its deadline: ask, wait, ask again.

use std::sync::Arc;
use std::time::Duration;

use super::acquirer::Acquirer;
use super::patience::Patience;
use super::queue::Ticket;
use super::refusal::{Refusal, own_holder};
use super::request::Request;
use super::retry::{Delays, FALLBACK, OutageLimit, Outlook};
use super::round::{Round, connect, round};
use crate::clock::{Clock, Instant, NEVER, jittered};
use crate::error::{Error, Result};
use crate::lease::{Lease, Owner};
use crate::node::Expect;

/// One acquire.
/// Dropped at any await it leaves no key and no place in the line: its round and its ticket see to that.
pub(super) struct Attempt<'a> {
    pub(super) request: &'a Request,
    pub(super) acquirer: &'a Acquirer,
    pub(super) started: Instant,
    /// One budget over queueing, connecting, asking and pausing; `None`: no end.
    pub(super) wait: Option<Duration>,
    /// The owner, where the language knows one.
    owner: Option<Owner>,
    /// Why no lease was acquired yet.
    last: Refusal,
    /// Too many nodes refuse what no retry can change.
    permanent: bool,
    /// When the first of the last rounds was refused, all of which were.
    refused_since: Option<Instant>,
    limit: OutageLimit,
    delays: Delays,
    pub(super) outlook: Outlook,
    pub(super) patience: Patience,
}

impl<'a> Attempt<'a> {
    /// `wait` is what it may take; `None`: it has no end.
    pub(super) fn new(
        request: &'a Request,
        acquirer: &'a Acquirer,
        wait: Option<Duration>,
        owner: Option<Owner>,
    ) -> Self {
        let started = acquirer.leases.nodes.clock.now();
        let unavailable_after = request.options.unavailable_after.filter(|_| wait.is_none());
        Self {
            request,
            acquirer,
            started,
            wait,
            owner,
            last: Refusal::Queued,
            permanent: false,
            refused_since: None,
            limit: OutageLimit::new(unavailable_after, started),
            delays: Delays::new(),
            outlook: Outlook::new(),
            patience: Patience::new(request),
        }
    }

    /// The lease, or why there was none by the deadline.
    pub(super) async fn run(&mut self) -> Result<Lease> {
        let leases = &self.acquirer.leases;
        let (clock, keys) = (Arc::clone(&leases.nodes.clock), &self.request.keys);
        let ticket = self.join();
        self.take_turn(&ticket).await?;
        // Before the first question: a change that came between the question and the pause would be missed.
        let interest = leases.watch.subscribe(keys);
        self.let_others_ask(&*clock).await;
        if self.wait == Some(Duration::ZERO)
            && let Err(refusal) = connect(self.request, self.acquirer).await
        {
            self.note(refusal, self.started, false, &ticket);
            return Err(self.failure(&ticket));
        }
        loop {
            // Read before asking: a change that comes while the nodes answer is a reason to ask again.
            let mark = interest.mark();
            let (end, now) = (self.end(&ticket), clock.now());
            let cut = end.since(now) < self.request.node_timeout();
            let how = (self.outlook.ask(now), self.limit.is_doubtful(now, &ticket));
            match round(self.request, self.acquirer, (now, end), how).await {
                Round::Granted(lease) => {
                    leases.fairness.acquired(keys, self.outlook.expect == Expect::Contended);
                    ticket.leave(now);
                    return Ok(lease);
                }
                Round::Refused(refusal) => {
                    ticket.refused(refusal.taken(keys.len()));
                    self.note(refusal, now, cut, &ticket);
                }
            }
            let Some(pause) = self.pause(&ticket) else { return Err(self.failure(&ticket)) };
            self.say_held(&ticket);
            self.patience.waits(self.request, &self.last);
            // After a split vote, waking at once would only split the votes again. A caller whose grants come too
            // late anyway would only keep the lock from others.
            let told = !matches!(self.last, Refusal::Split { .. } | Refusal::Late(..));
            tokio::select! {
                biased;
                () = clock.sleep_until(clock.now() + pause) => {}
                () = interest.changed_since(mark), if told => self.defer().await,
                () = self.deadline(&ticket) => return Err(self.failure(&ticket)),
            }
            ticket.again(self.last.taken(keys.len()));
            self.take_turn(&ticket).await?;
        }
    }

    /// Takes a place among the callers of this process.
    fn join(&mut self) -> Ticket {
        let ticket = self.acquirer.queue.join(&self.request.keys);
        if !ticket.asks() {
            self.limit.queued = true;
            self.patience.waits(self.request, &self.last);
        }
        ticket
    }

    /// Waits for this caller's turn among the callers of this process.
    async fn take_turn(&mut self, ticket: &Ticket) -> Result<()> {
        tokio::select! {
            biased;
            () = ticket.turn() => Ok(()),
            () = self.deadline(ticket) => Err(self.failure(ticket)),
        }
    }

    /// Before the first round: if other clients want the keys too, they may ask first.
    async fn let_others_ask(&mut self, clock: &dyn Clock) {
        if !self.time_for_two() {
            // Over a link of 30 ms, a pause within 45 ms would leave a free lock no time for its round.
            return self.outlook.expect_less();
        }
        let fairness = &self.acquirer.leases.fairness;
        let pause = fairness.pause_if_contended(&self.request.keys);
        if pause.is_some() {
            self.outlook.expect_less();
        }
        self.step_back(pause, clock).await;
    }

    /// Before a further round, after a notification that the keys are free.
    async fn defer(&self) {
        if !self.time_for_two() {
            return;
        }
        let leases = &self.acquirer.leases;
        // Over several nodes, where every caller costs the others a round, newcomers let those ask first that have lost
        // a race already.
        let newcomer = leases.nodes.list.len() > 1 && self.outlook.is_newcomer();
        let keys = &self.request.keys;
        let pause = newcomer.then(|| leases.fairness.pause_if_contended(keys)).flatten();
        self.step_back(pause, &*leases.nodes.clock).await;
    }

    /// Waits for this pause, or for that of a client that takes the lock repeatedly.
    async fn step_back(&self, pause: Option<Duration>, clock: &dyn Clock) {
        let fairness = &self.acquirer.leases.fairness;
        let repeated = || fairness.pause_if_repeated(&self.request.keys, clock.now());
        if let Some(pause) = pause.or_else(repeated) {
            clock.sleep_until(clock.now() + pause.min(self.left() / 2)).await;
        }
    }

    /// Whether `wait` has time for a second question.
    fn time_for_two(&self) -> bool {
        let rounds = self.acquirer.leases.fairness.measured_rounds();
        self.wait.is_none() || self.left() >= rounds.unwrap_or(self.request.node_timeout() * 2)
    }

    async fn deadline(&self, ticket: &Ticket) {
        match self.wait {
            Some(wait) => self.acquirer.leases.nodes.clock.sleep_until(self.started + wait).await,
            None => self.limit.given_up(&*self.acquirer.leases.nodes.clock, ticket).await,
        }
    }

    fn now(&self) -> Instant {
        self.acquirer.leases.nodes.clock.now()
    }

    fn waited(&self) -> Duration {
        self.now().since(self.started)
    }

    /// By when a round must be over; a `wait` of 0 is one whole round.
    fn end(&self, ticket: &Ticket) -> Instant {
        match self.wait {
            None => self.limit.gives_up_at(ticket).unwrap_or(NEVER),
            Some(Duration::ZERO) => NEVER,
            Some(wait) => self.started + wait,
        }
    }

    /// What is left of `wait`.
    fn left(&self) -> Duration {
        self.wait.map_or(Duration::MAX, |wait| wait.saturating_sub(self.waited()))
    }

    /// Remembers the refusal. A round that `wait` cut short is less informative than a complete round before it.
    fn note(&mut self, refusal: Refusal, began: Instant, cut: bool, ticket: &Ticket) {
        self.outlook.expect_less();
        let known = self.limit.queued || !matches!(self.last, Refusal::Queued);
        let now = self.now();
        let refused_since = self.refused_since.unwrap_or(now);
        self.refused_since = refusal.is_refused().then_some(refused_since);
        self.permanent = refusal.is_permanent(now.since(refused_since), self.wait.is_some());
        if refusal.is_unavailable() && cut && known && !self.permanent {
            return;
        }
        self.limit.note(&refusal, (began, now), ticket);
        self.delays.note(&refusal);
        self.outlook.note(&refusal, self.now(), self.acquirer.leases.fairness.rounds());
        self.last = refusal;
    }

    /// How long to sleep before the next round; `None` where there is none.
    fn pause(&mut self, ticket: &Ticket) -> Option<Duration> {
        let given_up = || self.limit.gives_up_at(ticket).is_some_and(|end| self.now() >= end);
        if self.wait.map_or_else(given_up, |wait| self.waited() >= wait) {
            return None;
        }
        match self.last {
            Refusal::Permanent(..) => None,
            _ if self.permanent => None,
            Refusal::Split { .. } => Some(self.delays.after_split()),
            Refusal::Held(free, _) => Some(self.delays.until_free(free, self.is_told())),
            Refusal::Scouted(free, _) => {
                let free = self.delays.until_free(free, self.is_told());
                Some(self.outlook.until_all(free, self.now()))
            }
            // One of many is enough to find out that the nodes are back; a connection that opens wakes them all.
            _ if !ticket.is_first() => Some(jittered(FALLBACK)),
            Refusal::Unavailable(..) | Refusal::Late(..) | Refusal::Queued => {
                self.say_unavailable(ticket);
                Some(self.delays.while_unavailable())
            }
        }
    }

    /// Whether more than half of the nodes push changes. Keys that are locked together are pushed together.
    fn is_told(&self) -> bool {
        let nodes = &self.acquirer.leases.nodes.list;
        let key = self.request.keys.first().map_or("", String::as_str);
        nodes.iter().filter(|node| node.pushes(key)).count() * 2 > nodes.len()
    }

    /// Said once.
    fn say_unavailable(&mut self, ticket: &Ticket) {
        let period = self.limit.no_quorum(ticket);
        let lasted = period.map_or(Duration::ZERO, |period| self.now().since(period.since));
        let log_late = || self.acquirer.logs_late_grant();
        self.patience.useless(self.request, &self.last, lasted, log_late);
    }

    /// The first in line says it for those behind: they wait for the same holder.
    fn say_held(&mut self, ticket: &Ticket) {
        if self.wait.is_none() && !self.last.is_unavailable() && ticket.is_first() {
            let own = || own_holder(&self.acquirer.leases, self.request, self.owner);
            self.patience.held(self.request, &self.last, self.waited(), own);
        }
    }

    /// The error: why no lease was acquired, since when, and which client holds it.
    fn failure(&mut self, ticket: &Ticket) -> Error {
        let waited = self.waited();
        let period = self.limit.no_quorum(ticket);
        let lasted = period.as_ref().map(|period| self.now().since(period.since));
        let mut last = std::mem::replace(&mut self.last, Refusal::Queued);
        let permanent = self.permanent || matches!(last, Refusal::Permanent(..));
        let given_up = self.wait.is_none() && !permanent;
        if let Some(period) = period.filter(|_| given_up && !last.is_unavailable()) {
            // Another caller found this out while this one waited for its turn.
            last = Refusal::clone(&period.why);
        }
        match last.error(self.request, lasted) {
            Some(error) if matches!(last, Refusal::Permanent(..)) => error,
            Some(error) if given_up => {
                error.with_waited(waited).given_up(self.request.options.way_to_wait_longer())
            }
            Some(error) => error.with_waited(waited),
            None => {
                let leases = &self.acquirer.leases;
                let (why, remaining) = last.who_was_first();
                let text = format!("{why}{}", own_holder(leases, self.request, self.owner));
                Error::timeout(&self.request.key(), waited, &text).with_remaining(remaining)
            }
        }
    }
}
