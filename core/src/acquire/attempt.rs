//! The loop of one acquire, from its first round to its deadline: run a round, wait, repeat. It chooses how long to
//! wait ([`Attempt::pause`]), from the values of [`super::retry`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::deadline::Deadline;
use super::line::NoQuorum;
use super::queue::Ticket;
use super::refusal::{Evidence, Refusal, own_holder, own_lease};
use super::retry::{Delays, FALLBACK, Pushes, RoundPlan};
use super::round::{Acquirer, RoundParams, connect, round};
use super::wait_log::WaitLog;
use crate::clock::{Clock, Instant, jittered};
use crate::error::{Error, Result};
use crate::fairness::Fairness;
use crate::lease::Lease;
use crate::node::{Expect, WantedTurn};
use crate::options::lock::Request;
use crate::runtime::background;
use crate::telemetry::{Owner, Spans};

/// How many rounds in a row may miss before the next one is delayed like one after a split vote, and before an acquire
/// that does not wait gives up.
pub(super) const MAX_MISSES: u8 = 3;

/// One acquire. Dropping it at any await leaves no key and no entry in the queue: its round deletes the votes, and its
/// ticket leaves the queue.
pub(super) struct Attempt<'a> {
    request: &'a Arc<Request>,
    acquirer: &'a Acquirer,
    pub(super) deadline: Deadline,
    owner: Option<Owner>,
    /// Why no lease was acquired yet.
    last: Refusal,
    /// When that was known.
    last_at: Instant,
    /// Whether too many nodes refuse for a reason that no retry can change.
    permanent: bool,
    /// When the current series of refused rounds began. `None` if the last round was not refused.
    refused_since: Option<Instant>,
    /// How many rounds in a row missed.
    misses: u8,
    /// The duration of the last round in ms. Not a `Duration`, because this is part of the future of every acquire.
    round_ms: u32,
    delays: Delays,
    plan: RoundPlan,
    log: WaitLog,
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
        let limit = request.options.unavailable_after;
        Self {
            request,
            acquirer,
            deadline: Deadline::new(&acquirer.nodes.clock, wait, limit),
            owner,
            last: Refusal::Queued,
            last_at: Instant::default(),
            permanent: false,
            refused_since: None,
            misses: 0,
            round_ms: 0,
            delays: Delays::default(),
            plan: RoundPlan::default(),
            log: WaitLog::new(),
            spans: Spans::acquire(|| request.key()),
        }
    }

    /// Decides how the round that begins now runs.
    fn next_round(&mut self, ticket: &Ticket, now: Instant) -> RoundParams {
        let until = self.deadline.of_round(ticket);
        let cut = until.since(now) < self.request.node_timeout();
        RoundParams {
            now,
            until,
            thorough: self.deadline.is_quorum_doubtful(now, ticket),
            expect: self.plan.next_round(now),
            is_cut: self.deadline.has_wait() && cut,
            may_repeat: !self.deadline.allows_one_round(),
            preference: self.acquirer.preference(self.request, ticket, self.refusal()),
            turn: self.turn(),
        }
    }

    /// The turn of a side of a read/write lock, if it waits for the other side.
    fn turn(&self) -> Option<WantedTurn> {
        let rounds = || self.acquirer.leases.fairness.measured_rounds();
        let turn = self.request.primitive.turn(rounds, || self.deadline.left());
        turn.filter(|_| !self.deadline.allows_one_round())
    }

    pub(super) async fn run(&mut self) -> Result<Lease> {
        let leases = &self.acquirer.leases;
        let (clock, keys) = (Arc::clone(&leases.clock), &self.request.identity);
        let ticket = self.join();
        self.take_turn(&ticket).await?;
        // Subscribes before the first round. Otherwise a change between the round and the pause would be missed.
        let interest = leases.watch.subscribe(keys);
        self.pause_for_others(&*clock).await;
        if self.deadline.allows_one_round()
            && let Err(refusal) = connect(self.request, self.acquirer).await
        {
            self.record(refusal, self.deadline.started, false, &ticket);
            return Err(self.failure(&ticket));
        }
        loop {
            // Read before the round: a change that is reported during the round is a reason to try again.
            let mark = interest.mark();
            let now = clock.now();
            let params = self.next_round(&ticket, now);
            let cut = params.until.since(now) < self.request.node_timeout();
            // Pinned here, because an awaited call is copied.
            match pin!(round(self.request, self.acquirer, params)).await {
                Ok(lease) => {
                    if let Some(fairness) = self.fairness() {
                        fairness.acquired(keys, self.plan.expect == Expect::Contended);
                    }
                    ticket.leave(now);
                    return Ok(lease);
                }
                Err(refusal) => {
                    ticket.refused(refusal.taken(keys.len()).as_ref());
                    self.record(refusal, now, cut, &ticket);
                }
            }
            let Some(pause) = self.pause(&ticket) else { return Err(self.failure(&ticket)) };
            self.log_held(&ticket);
            self.log.waiting(&self.last, self.request, &self.spans);
            tokio::select! {
                biased;
                () = clock.sleep_until(clock.now() + pause) => {}
                () = interest.changed_since(mark), if self.last.ends_by_change() => self.defer().await,
                () = self.deadline.passed(&ticket) => return Err(self.failure(&ticket)),
            }
            ticket.requeue(self.last.taken(keys.len()));
            self.take_turn(&ticket).await?;
        }
    }

    fn join(&mut self) -> Ticket {
        let share = self.request.primitive.share();
        let ticket = self.acquirer.queue.join(&self.request.identity, share);
        if !ticket.has_turn() {
            self.deadline.was_queued = true;
            self.log.waiting(&self.last, self.request, &self.spans);
        }
        ticket
    }

    /// Waits for this caller's turn among the callers of this process.
    async fn take_turn(&mut self, ticket: &Ticket) -> Result<()> {
        tokio::select! {
            biased;
            // Its turn may come because the callers before it ended at the same time as its own wait.
            () = ticket.turn() => {
                if self.deadline.is_over_before_turn() { Err(self.failure(ticket)) } else { Ok(()) }
            }
            () = self.deadline.passed(ticket) => Err(self.failure(ticket)),
        }
    }

    /// Pauses before the first round if other clients want the keys, so that those can try first.
    async fn pause_for_others(&mut self, clock: &dyn Clock) {
        if !self.time_for_two() {
            // Over a link of 30 ms, a pause of 45 ms could leave no time for the round on a free lock.
            return self.plan.expect_less();
        }
        let Some(fairness) = self.fairness() else { return };
        let pause = fairness.pause_if_contended(&self.request.identity);
        if pause.is_some() {
            self.plan.expect_less();
        }
        self.step_back(pause, clock).await;
    }

    /// Pauses before a further round, after a notification that the keys are free.
    async fn defer(&mut self) {
        if !self.time_for_two() {
            return;
        }
        let (nodes, Some(fairness)) = (&self.acquirer.nodes, self.fairness()) else {
            // The votes that a failed round takes back wake the others. Without a growing pause, callers that collided
            // would collide again, and forever on a slow network.
            if self.last.is_divided() {
                let (clock, pause) =
                    (&self.acquirer.nodes.clock, self.delays.after_split(self.round_ms));
                clock.sleep_until(clock.now() + pause.min(self.deadline.left() / 2)).await;
            }
            return;
        };
        // Over several nodes each additional caller costs the others a round. Newcomers therefore let callers try first
        // that have already lost a race.
        let newcomer = nodes.list.len() > 1 && self.plan.is_newcomer();
        let keys = &self.request.identity;
        let pause = newcomer.then(|| fairness.pause_if_contended(keys)).flatten();
        self.step_back(pause, &*nodes.clock).await;
    }

    /// Waits for this pause, or for the pause of a client that takes the lock repeatedly.
    async fn step_back(&self, pause: Option<Duration>, clock: &dyn Clock) {
        let fairness = &self.acquirer.leases.fairness;
        let repeated = || fairness.pause_if_repeated(&self.request.identity, clock.now());
        if let Some(pause) = pause.or_else(repeated) {
            clock.sleep_until(clock.now() + pause.min(self.deadline.left() / 2)).await;
        }
    }

    /// Why the last round failed. `None` before the first one.
    fn refusal(&self) -> Option<&Refusal> {
        Some(&self.last).filter(|last| !matches!(last, Refusal::Queued))
    }

    /// What the client knows about turns, if clients take turns.
    fn fairness(&self) -> Option<&'a Fairness> {
        self.request.primitive.is_exclusive().then_some(&self.acquirer.leases.fairness)
    }

    /// Whether `wait` leaves time for a second request.
    fn time_for_two(&self) -> bool {
        let rounds = self.acquirer.leases.fairness.measured_rounds();
        self.deadline.left() >= rounds.unwrap_or(self.request.node_timeout() * 2)
    }

    /// Remembers the refusal. A round that `wait` cut short is less informative than a complete round before it.
    fn record(&mut self, refusal: Refusal, began: Instant, cut: bool, ticket: &Ticket) {
        self.plan.expect_less();
        if refusal.is_unavailable() {
            // The program may have closed the descriptors. The next call then opens others.
            background::has_lost_descriptors();
        }
        let known = self.deadline.was_queued || !matches!(self.last, Refusal::Queued);
        let now = self.deadline.now();
        let refused_since = self.refused_since.unwrap_or(now);
        self.refused_since = refusal.is_refused().then_some(refused_since);
        self.permanent = refusal.is_permanent(now.since(refused_since), self.deadline.has_wait());
        if refusal.is_unavailable() && cut && known && !self.permanent {
            return;
        }
        self.deadline.record(&refusal, began, now, ticket);
        self.round_ms = u32::try_from(now.since(began).as_millis()).unwrap_or(u32::MAX);
        self.delays.record_refusal(&refusal);
        self.plan.record_refusal(&refusal, now, self.acquirer.leases.fairness.rounds());
        (self.last, self.last_at) = (refusal, now);
    }

    /// How long to sleep before the next round, or `None` after the last round.
    fn pause(&mut self, ticket: &Ticket) -> Option<Duration> {
        // The refusals named open places. If others are faster each time, the delay grows.
        let is_single = self.deadline.allows_one_round();
        let is_over = is_single && self.deadline.waited() >= self.request.node_timeout();
        if matches!(self.last, Refusal::Missed { .. }) && self.misses < MAX_MISSES && !is_over {
            self.misses += 1;
            // Without a `wait`, a delay would be the end.
            let at_once = self.misses == 1 || is_single;
            return Some(if at_once {
                Duration::ZERO
            } else {
                self.delays.after_split(self.round_ms)
            });
        }
        self.misses = 0;
        if self.deadline.is_over(ticket) {
            return None;
        }
        match self.last {
            Refusal::Permanent(..) => None,
            _ if self.permanent || self.last.is_remembered(self.request) => None,
            Refusal::Split | Refusal::Missed { .. } => Some(self.delays.after_split(self.round_ms)),
            Refusal::Held { ref refused, evidence } => {
                let (left, pushes) = (refused.left, self.pushes());
                let free = self.delays.until_free(left, pushes);
                Some(match evidence {
                    Evidence::Scout => self.plan.until_all(free, self.deadline.now()),
                    Evidence::Refusals { .. } => free,
                    // A failed node may work again without a notification.
                    Evidence::WithFailures { .. } => free.min(jittered(FALLBACK)),
                })
            }
            // The first caller in line is enough to detect that the nodes are back. An opened connection then wakes all
            // of them.
            _ if !ticket.is_first() => Some(jittered(FALLBACK)),
            Refusal::Unavailable(..) | Refusal::Late(..) | Refusal::Queued => {
                let period = self.deadline.no_quorum(ticket);
                let lasted = period.map(|period| self.deadline.now().since(period.since));
                let lasted = lasted.unwrap_or_default();
                self.log.unavailable(&self.last, self.request, self.acquirer, lasted);
                Some(self.delays.while_unavailable())
            }
        }
    }

    /// Whether more than half of the nodes push changes. Keys that are locked together are pushed together.
    fn pushes(&self) -> Pushes {
        let nodes = &self.acquirer.nodes.list;
        let key = self.request.identity.first().map_or("", String::as_str);
        let most = |count: usize| count * 2 > nodes.len();
        let pushes = nodes.iter().filter(|node| node.pushes(key)).count();
        let checked = nodes.iter().filter(|node| node.is_push_checked(key)).count();
        let keeps_turn = self.request.primitive.has_turns();
        match (most(pushes), most(checked)) {
            // The turn of a waiting caller ends if it does not ask again.
            (true, true) if !keeps_turn => Pushes::Checked,
            (true, _) => Pushes::Unchecked,
            (false, _) => Pushes::Missing,
        }
    }

    /// Logs repeatedly that another owner holds the lock. Only the first caller in line does, because the callers
    /// behind it wait for the same holder.
    fn log_held(&mut self, ticket: &Ticket) {
        let waited = self.deadline.waited();
        let is_endless = !self.deadline.has_wait() && !self.request.options.is_leader();
        let is_wanted = is_endless && !self.last.is_unavailable();
        if !is_wanted || !self.log.is_due(waited) || !ticket.is_first() {
            return;
        }
        let own = own_lease(&self.acquirer.leases, self.request, self.owner);
        let (why, _) = self.last.describe_holder(self.request, own.as_deref());
        let why = why + &own_holder(own.as_deref(), self.owner, &self.request.primitive);
        self.log.held(&self.last, self.request, waited, &why);
    }

    /// Returns the error: why no lease was acquired, since when, and which client holds it.
    fn failure(&mut self, ticket: &Ticket) -> Error {
        let waited = self.deadline.waited();
        let period = self.deadline.no_quorum(ticket);
        let lasted = period.as_ref().map(|period| self.deadline.now().since(period.since));
        let mut last = std::mem::replace(&mut self.last, Refusal::Queued);
        last.count_down(self.deadline.now().since(self.last_at));
        let permanent = self.permanent || matches!(last, Refusal::Permanent(..));
        let given_up = !self.deadline.has_wait() && !permanent;
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
                let own = own_lease(&self.acquirer.leases, self.request, self.owner);
                let (why, remaining) = last.describe_holder(self.request, own.as_deref());
                let text = why + &own_holder(own.as_deref(), self.owner, &self.request.primitive);
                Error::timeout(&self.request.key(), waited, &text)
                    .with_remaining(remaining)
                    .with_holder(last.holder())
                    .with_remembered(last.is_remembered(self.request))
            }
        }
    }
}
