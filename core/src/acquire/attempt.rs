//! The loop of one acquire, from its first round to its deadline: run a round, wait, repeat. It also logs long waits.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{NoQuorum, Ticket};
use super::refusal::{Refusal, own_holder};
use super::retry::{Delays, FALLBACK, OutageLimit, Pushes, RoundPlan};
use super::round::{Acquirer, connect, round};
use crate::clock::{Clock, Instant, NEVER, jittered};
use crate::error::{Error, Result, seconds};
use crate::lease::{Lease, Owner};
use crate::lock::options::Request;
use crate::node::Expect;
use crate::runtime::background;
use crate::telemetry::{Level, Spans, Topic, log};

/// An endless wait is first logged after this time, and again each time its duration has doubled.
const FIRST_WARNING: Duration = Duration::from_secs(30);

/// One acquire. Dropping it at any await leaves no key and no entry in the queue: its round deletes the votes, and its
/// ticket leaves the queue.
pub(super) struct Attempt<'a> {
    pub(super) request: &'a Arc<Request>,
    pub(super) acquirer: &'a Acquirer,
    pub(super) started: Instant,
    /// One budget for queueing, connecting, voting and pausing. `None` waits forever.
    pub(super) wait: Option<Duration>,
    owner: Option<Owner>,
    /// Why no lease was acquired yet.
    last: Refusal,
    /// Whether too many nodes refuse for a reason that no retry can change.
    permanent: bool,
    /// When the current series of refused rounds began. `None` if the last round was not refused.
    refused_since: Option<Instant>,
    limit: OutageLimit,
    delays: Delays,
    pub(super) plan: RoundPlan,
    /// Whether it was logged that too few nodes can be used.
    unavailable_logged: bool,
    /// Whether a wait for other callers of this client was logged, and a wait for another client.
    waits_logged: [bool; 2],
    /// The waiting time at the next record about a held lock.
    next_warning: Duration,
    pub(super) spans: Spans,
}

impl<'a> Attempt<'a> {
    /// Creates an acquire that may take up to `wait`. `None` waits forever.
    pub(super) fn new(
        request: &'a Arc<Request>,
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
            delays: Delays::default(),
            plan: RoundPlan::default(),
            unavailable_logged: false,
            waits_logged: [false; 2],
            next_warning: FIRST_WARNING,
            spans: Spans::acquire(|| request.key()),
        }
    }

    pub(super) async fn run(&mut self) -> Result<Lease> {
        let leases = &self.acquirer.leases;
        let (clock, keys) = (Arc::clone(&leases.nodes.clock), &self.request.keys);
        let ticket = self.join();
        self.take_turn(&ticket).await?;
        // Subscribes before the first round. Otherwise a change between the round and the pause would be missed.
        let interest = leases.watch.subscribe(keys);
        self.pause_for_others(&*clock).await;
        if self.wait == Some(Duration::ZERO)
            && let Err(refusal) = connect(self.request, self.acquirer).await
        {
            self.note(refusal, self.started, false, &ticket);
            return Err(self.failure(&ticket));
        }
        loop {
            // Read before the round: a change that is reported during the round is a reason to try again.
            let mark = interest.mark();
            let (end, now) = (self.end(&ticket), clock.now());
            let cut = end.since(now) < self.request.node_timeout();
            let (doubtful, is_cut) =
                (self.limit.is_doubtful(now, &ticket), self.wait.is_some() && cut);
            let how = (self.plan.ask(now), doubtful, is_cut);
            match round(self.request, self.acquirer, (now, end), how).await {
                Ok(lease) => {
                    leases.fairness.acquired(keys, self.plan.expect == Expect::Contended);
                    ticket.leave(now);
                    return Ok(lease);
                }
                Err(refusal) => {
                    ticket.refused(refusal.taken(keys.len()));
                    self.note(refusal, now, cut, &ticket);
                }
            }
            let Some(pause) = self.pause(&ticket) else { return Err(self.failure(&ticket)) };
            self.log_held(&ticket);
            self.log_waiting();
            // A notification does not end the pause after a split vote, because the votes would split again. Nor does
            // it after a late grant, because the next one would also be late and keep the lock from other clients.
            let notifiable = !matches!(self.last, Refusal::Split { .. } | Refusal::Late(..));
            tokio::select! {
                biased;
                () = clock.sleep_until(clock.now() + pause) => {}
                () = interest.changed_since(mark), if notifiable => self.defer().await,
                () = self.deadline(&ticket) => return Err(self.failure(&ticket)),
            }
            ticket.requeue(self.last.taken(keys.len()));
            self.take_turn(&ticket).await?;
        }
    }

    fn join(&mut self) -> Ticket {
        let ticket = self.acquirer.queue.join(&self.request.keys);
        if !ticket.has_turn() {
            self.limit.queued = true;
            self.log_waiting();
        }
        ticket
    }

    /// Waits for this caller's turn among the callers of this process.
    async fn take_turn(&mut self, ticket: &Ticket) -> Result<()> {
        tokio::select! {
            biased;
            // Its turn may come because the callers before it ended at the same time as its own wait.
            () = ticket.turn() => if self.is_late() { Err(self.failure(ticket)) } else { Ok(()) },
            () = self.deadline(ticket) => Err(self.failure(ticket)),
        }
    }

    /// Whether its wait ended while it waited for its turn, so that it must not send anything.
    fn is_late(&self) -> bool {
        let over = |wait: Duration| !wait.is_zero() && self.waited() >= wait;
        self.limit.queued && self.wait.is_some_and(over)
    }

    /// Pauses before the first round if other clients want the keys, so that those can try first.
    async fn pause_for_others(&mut self, clock: &dyn Clock) {
        if !self.time_for_two() {
            // Over a link of 30 ms, a pause of 45 ms could leave no time for the round on a free lock.
            return self.plan.expect_less();
        }
        let fairness = &self.acquirer.leases.fairness;
        let pause = fairness.pause_if_contended(&self.request.keys);
        if pause.is_some() {
            self.plan.expect_less();
        }
        self.step_back(pause, clock).await;
    }

    /// Pauses before a further round, after a notification that the keys are free.
    async fn defer(&self) {
        if !self.time_for_two() {
            return;
        }
        let leases = &self.acquirer.leases;
        // Over several nodes each additional caller costs the others a round. Newcomers therefore let callers try first
        // that have already lost a race.
        let newcomer = leases.nodes.list.len() > 1 && self.plan.is_newcomer();
        let keys = &self.request.keys;
        let pause = newcomer.then(|| leases.fairness.pause_if_contended(keys)).flatten();
        self.step_back(pause, &*leases.nodes.clock).await;
    }

    /// Waits for this pause, or for the pause of a client that takes the lock repeatedly.
    async fn step_back(&self, pause: Option<Duration>, clock: &dyn Clock) {
        let fairness = &self.acquirer.leases.fairness;
        let repeated = || fairness.pause_if_repeated(&self.request.keys, clock.now());
        if let Some(pause) = pause.or_else(repeated) {
            clock.sleep_until(clock.now() + pause.min(self.left() / 2)).await;
        }
    }

    /// Whether `wait` leaves time for a second request.
    fn time_for_two(&self) -> bool {
        let rounds = self.acquirer.leases.fairness.measured_rounds();
        self.wait.is_none() || self.left() >= rounds.unwrap_or(self.request.node_timeout() * 2)
    }

    async fn deadline(&self, ticket: &Ticket) {
        match self.wait {
            Some(wait) => self.acquirer.leases.nodes.clock.sleep_until(self.started + wait).await,
            None => self.limit.until_given_up(&*self.acquirer.leases.nodes.clock, ticket).await,
        }
    }

    fn now(&self) -> Instant {
        self.acquirer.leases.nodes.clock.now()
    }

    fn waited(&self) -> Duration {
        self.now().since(self.started)
    }

    /// The deadline of a round. With a `wait` of 0, one whole round is allowed.
    fn end(&self, ticket: &Ticket) -> Instant {
        match self.wait {
            None => self.limit.gives_up_at(ticket).unwrap_or(NEVER),
            Some(Duration::ZERO) => NEVER,
            Some(wait) => self.started + wait,
        }
    }

    fn left(&self) -> Duration {
        self.wait.map_or(Duration::MAX, |wait| wait.saturating_sub(self.waited()))
    }

    /// Remembers the refusal. A round that `wait` cut short is less informative than a complete round before it.
    fn note(&mut self, refusal: Refusal, began: Instant, cut: bool, ticket: &Ticket) {
        self.plan.expect_less();
        if refusal.is_unavailable() {
            // The program may have closed the descriptors. The next call then opens others.
            background::has_lost_descriptors();
        }
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
        self.plan.note(&refusal, self.now(), self.acquirer.leases.fairness.rounds());
        self.last = refusal;
    }

    /// How long to sleep before the next round, or `None` after the last round.
    fn pause(&mut self, ticket: &Ticket) -> Option<Duration> {
        let given_up = || self.limit.gives_up_at(ticket).is_some_and(|end| self.now() >= end);
        if self.wait.map_or_else(given_up, |wait| self.waited() >= wait) {
            return None;
        }
        match self.last {
            Refusal::Permanent(..) => None,
            _ if self.permanent => None,
            Refusal::Split { .. } => Some(self.delays.after_split()),
            Refusal::Held { free, scouted, .. } => {
                let free = self.delays.until_free(free, self.pushes());
                Some(if scouted { self.plan.until_all(free, self.now()) } else { free })
            }
            // The first caller in line is enough to detect that the nodes are back. An opened connection then wakes all
            // of them.
            _ if !ticket.is_first() => Some(jittered(FALLBACK)),
            Refusal::Unavailable(..) | Refusal::Late(..) | Refusal::Queued => {
                self.log_unavailable(ticket);
                Some(self.delays.while_unavailable())
            }
        }
    }

    /// Whether more than half of the nodes push changes. Keys that are locked together are pushed together.
    fn pushes(&self) -> Pushes {
        let nodes = &self.acquirer.leases.nodes.list;
        let key = self.request.keys.first().map_or("", String::as_str);
        let most = |count: usize| count * 2 > nodes.len();
        let pushes = nodes.iter().filter(|node| node.pushes(key)).count();
        let checked = nodes.iter().filter(|node| node.is_push_checked(key)).count();
        match (most(pushes), most(checked)) {
            (true, true) => Pushes::Checked,
            (true, false) => Pushes::Unchecked,
            (false, _) => Pushes::Missing,
        }
    }

    /// Logs once that the acquire begins to wait, and for which holder.
    fn log_waiting(&mut self) {
        let logged = &mut self.waits_logged[usize::from(!matches!(self.last, Refusal::Queued))];
        if self.last.is_unavailable() || std::mem::replace(logged, true) {
            return;
        }
        if log::wanted(Level::Debug, Topic::Acquire) {
            let (holder, remaining) = self.last.describe_holder();
            log::event!(
                Debug, Acquire, in self.spans.log_context(), { key: self.request.key(), remaining_ms: remaining },
                "waiting: {holder}", holder = holder
            );
        }
    }

    /// Logs once that too few nodes can be used. `node::outage` logs the outages of nodes, once for all acquires. If a
    /// quorum granted too late, no node failed, and this is the only record.
    fn log_unavailable(&mut self, ticket: &Ticket) {
        let lasted = self.limit.no_quorum(ticket).map(|period| self.now().since(period.since));
        let lasted = lasted.unwrap_or_default();
        if lasted < FALLBACK || std::mem::replace(&mut self.unavailable_logged, true) {
            return;
        }
        let Some(error) = self.last.error(self.request, Some(lasted)) else { return };
        let late = matches!(self.last, Refusal::Late(..));
        if let Some(omitted) = late.then(|| self.acquirer.late.admit(self.now())).flatten() {
            log::event!(
                Warn, Acquire, { key: self.request.key() },
                "every grant arrived too late, retrying: {why}",
                why = format_args!("{error}{omitted}")
            );
        } else {
            log::event!(
                Debug, Acquire, { key: self.request.key() }, "retrying: {why}", why = error
            );
        }
    }

    /// Logs repeatedly that another owner holds the lock. Only the first caller in line does, because the callers
    /// behind it wait for the same holder.
    fn log_held(&mut self, ticket: &Ticket) {
        if self.wait.is_some() || self.last.is_unavailable() {
            return;
        }
        let waited = self.waited();
        if waited < self.next_warning || !ticket.is_first() {
            return;
        }
        self.next_warning = waited * 2;
        let own = own_holder(&self.acquirer.leases, self.request, self.owner);
        log::event!(
            Warn, Acquire, { key: self.request.key() },
            "still waiting after {waited}, because wait sets no limit: {why}",
            waited = seconds(waited), why = format_args!("{}{own}", self.last.describe_holder().0),
        );
    }

    /// Returns the error: why no lease was acquired, since when, and which client holds it.
    fn failure(&mut self, ticket: &Ticket) -> Error {
        let waited = self.waited();
        let period = self.limit.no_quorum(ticket);
        let lasted = period.as_ref().map(|period| self.now().since(period.since));
        let mut last = std::mem::replace(&mut self.last, Refusal::Queued);
        let permanent = self.permanent || matches!(last, Refusal::Permanent(..));
        let given_up = self.wait.is_none() && !permanent;
        let never_tried = matches!(last, Refusal::Queued) && !permanent;
        let explains = |period: &NoQuorum| {
            // Replies that were too late for the TTL of another caller may be in time for this one.
            let is_outage = matches!(*period.why, Refusal::Unavailable(..));
            never_tried && is_outage || given_up && !last.is_unavailable()
        };
        if let Some(period) = period.filter(explains) {
            // Another caller detected the outage while this one waited for its turn.
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
                let (why, remaining) = last.describe_holder();
                let text = format!("{why}{}", own_holder(leases, self.request, self.owner));
                Error::timeout(&self.request.key(), waited, &text).with_remaining(remaining)
            }
        }
    }
}
