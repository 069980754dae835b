//! The acquire loop: ask, count, wait, ask again, until the deadline.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Instant, NEVER};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::live::Live;
use crate::lock::Lock;
use crate::log;
use crate::queue::Ticket;
use crate::round::{Odds, Refusal, Round, round};
use crate::state::Owner;
use crate::wait::{Backoff, jittered};

/// How long a waiter relies on being told before it asks anyway.
const FALLBACK: Duration = Duration::from_secs(1);
/// Between rounds that votes were split over: some round-trip times, growing while the contention lasts.
const SPLIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// A key that ends this near to another time is still the same one: both were told in whole milliseconds.
const SAME_END: Duration = Duration::from_millis(3);
/// Between rounds where no node can tell of a change.
const POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Between rounds that came to nothing: each takes votes away from others for a while.
const USELESS: (Duration, Duration) = (Duration::from_millis(5), FALLBACK);

pub(crate) async fn acquire(
    lock: Lock,
    wait: Option<Duration>,
    owner: Option<Owner>,
) -> Result<Lease> {
    let lock = lock.checked()?;
    let live = lock.client.live(&lock.key())?;
    let mut attempt = Attempt::new(&lock, &live, wait, owner);
    let granted = tokio::select! {
        biased;
        outcome = attempt.run() => outcome?,
        () = lock.client.closed() => return Err(Error::closed(&lock.key())),
    };
    lock.handed_out(&live, granted)
}

pub(crate) async fn try_acquire(lock: Lock) -> Result<Option<Lease>> {
    let lock = lock.checked()?;
    let live = lock.client.live(&lock.key())?;
    let ticket = live.queue.join(&lock.keys);
    if !ticket.asks() {
        return Ok(None);
    }
    match round(&lock, &live, NEVER, Odds::Unknown).await {
        Round::Granted(lease) => lock.handed_out(&live, lease).map(Some),
        Round::Refused(Refusal::Unavailable(nodes)) => Err(lock.unavailable(nodes, None)),
        Round::Refused(Refusal::Late(took, nodes)) => Err(lock.late(took, nodes, None)),
        Round::Refused(Refusal::Invalid(text)) => Err(lock.invalid(text)),
        Round::Refused(_) => Ok(None),
    }
}

/// One acquire from its first round to its deadline.
pub(crate) struct Attempt<'a> {
    pub(crate) lock: &'a Lock,
    pub(crate) live: &'a Arc<Live>,
    started: Instant,
    wait: Option<Duration>,
    /// Who asks, where the language knows.
    pub(crate) owner: Option<Owner>,
    pub(crate) last: Refusal,
    /// Had to let others of this process go first.
    queued: bool,
    /// Since when the nodes have been no use: too many of them faults, or all too slow for the ttl.
    pub(crate) unavailable_since: Option<Instant>,
    split: Backoff,
    poll: Backoff,
    useless: Backoff,
    odds: Odds,
    /// Rounds that others won.
    losses: u32,
    /// By when all nodes are asked, whatever one says.
    all_by: Instant,
    /// When the key that the one node named would end.
    scouted: Option<Instant>,
    /// That the nodes are of no use was logged.
    said: bool,
}

impl<'a> Attempt<'a> {
    fn new(
        lock: &'a Lock,
        live: &'a Arc<Live>,
        wait: Option<Duration>,
        owner: Option<Owner>,
    ) -> Self {
        Self {
            lock,
            live,
            started: live.quorum.clock.now(),
            wait,
            owner,
            last: Refusal::Queued,
            queued: false,
            unavailable_since: None,
            split: Backoff::new(SPLIT.0, SPLIT.1),
            poll: Backoff::new(POLL.0, POLL.1),
            useless: Backoff::new(USELESS.0, USELESS.1),
            odds: Odds::Good,
            losses: 0,
            all_by: Instant::default(),
            scouted: None,
            said: false,
        }
    }

    async fn run(&mut self) -> Result<Lease> {
        let clock = Arc::clone(&self.live.quorum.clock);
        let ticket = self.live.queue.join(&self.lock.keys);
        self.queued = !ticket.asks();
        self.take_turn(&ticket).await?;
        let interest = self.live.watch.subscribe(&self.lock.keys);
        if self.wait != Some(Duration::ZERO)
            && let Some(pause) = self.live.contention.courtesy(&self.lock.keys)
        {
            self.odds = Odds::Unknown;
            clock.sleep_until(clock.now() + pause.min(self.left() / 2)).await;
        } else if !self.time_for_two() {
            self.odds = Odds::Unknown;
        }
        loop {
            // Read before asking: a change that comes while the nodes answer is a reason to ask again.
            let mark = interest.mark();
            let end = self.end();
            let cut = end.since(clock.now()) < self.lock.options.node_timeout();
            match round(self.lock, self.live, end, self.ask()).await {
                Round::Granted(lease) => {
                    self.live.contention.note(&self.lock.keys, self.odds == Odds::Poor);
                    return Ok(lease);
                }
                Round::Refused(refusal) => {
                    ticket.refused(refusal.taken(self.lock.keys.len()));
                    self.note(refusal, cut);
                }
            }
            let Some(pause) = self.pause(&ticket) else { return Err(self.failure()) };
            // After a split, being woken at once would only split the votes again; who comes too late in any case only
            // keeps the lock from others.
            let told = !matches!(self.last, Refusal::Split(_) | Refusal::Late(..));
            tokio::select! {
                biased;
                () = clock.sleep_until(clock.now() + pause) => {}
                () = interest.changed_since(mark), if told => self.defer().await,
                () = self.deadline() => return Err(self.failure()),
            }
            ticket.again(self.last.taken(self.lock.keys.len()));
            self.take_turn(&ticket).await?;
        }
    }

    /// Waits until nobody of this process is to be asked for before.
    async fn take_turn(&mut self, ticket: &Ticket) -> Result<()> {
        tokio::select! {
            biased;
            () = ticket.turn() => Ok(()),
            () = self.deadline() => Err(self.failure()),
        }
    }

    /// How to ask now: under contention one node before the others, but all of them from time to time. The one may
    /// have a key that nobody else has: a vote of somebody who is dead, or another library's.
    fn ask(&mut self) -> Odds {
        let now = self.live.quorum.clock.now();
        if self.odds == Odds::Poor && now < self.all_by {
            return Odds::Poor;
        }
        self.all_by = now + jittered(FALLBACK);
        if self.odds == Odds::Poor { Odds::Unknown } else { self.odds }
    }

    /// Over several nodes, where every asker costs the others a round: newcomers let those ask first who have lost
    /// a race already.
    async fn defer(&self) {
        let live = self.live;
        if self.losses == 0
            && live.quorum.nodes.len() > 1
            && let Some(pause) = live.contention.courtesy(&self.lock.keys)
        {
            let pause = pause.min(self.left() / 2);
            live.quorum.clock.sleep_until(live.quorum.clock.now() + pause).await;
        }
    }

    /// Whether `wait` has time for a second question.
    fn time_for_two(&self) -> bool {
        let rounds = self.live.contention.measured();
        self.wait.is_none() || self.left() >= rounds.unwrap_or(self.lock.options.node_timeout() * 2)
    }

    async fn deadline(&self) {
        match self.wait {
            Some(wait) => self.live.quorum.clock.sleep_until(self.started + wait).await,
            None => pending().await,
        }
    }

    pub(crate) fn waited(&self) -> Duration {
        self.live.quorum.clock.now().since(self.started)
    }

    /// By when a round must be over; a `wait` of 0 is one whole round.
    fn end(&self) -> Instant {
        match self.wait {
            None | Some(Duration::ZERO) => NEVER,
            Some(wait) => self.started + wait,
        }
    }

    /// What is left of `wait`.
    fn left(&self) -> Duration {
        self.wait.map_or(Duration::MAX, |wait| wait.saturating_sub(self.waited()))
    }

    /// Remembers why there is no lease. What a round that `wait` cut lacks says less than a whole round before it.
    fn note(&mut self, refusal: Refusal, cut: bool) {
        if self.odds == Odds::Good {
            // Whatever it was, a second question may have been what took too long.
            self.odds = Odds::Unknown;
        }
        let unavailable = matches!(refusal, Refusal::Unavailable(_) | Refusal::Late(..));
        let known = self.queued || !matches!(self.last, Refusal::Queued);
        if unavailable && cut && known {
            return;
        }
        self.unavailable_since = match self.unavailable_since {
            _ if !unavailable => {
                self.useless = Backoff::new(USELESS.0, USELESS.1);
                None
            }
            None => Some(self.live.quorum.clock.now()),
            since => since,
        };
        if !matches!(refusal, Refusal::Split(_)) {
            self.split = Backoff::new(SPLIT.0, SPLIT.1);
        }
        if let Refusal::Scouted(left, _) = refusal {
            self.doubt(left);
        }
        if matches!(refusal, Refusal::Held(..) | Refusal::Scouted(..) | Refusal::Split(_)) {
            self.losses += u32::from(self.odds == Odds::Poor);
            self.odds = Odds::Poor;
        }
        self.last = refusal;
    }

    /// A key that ends when it did before, or never, is perhaps not the holder's: something has changed, or its time was
    /// over, and this one did not. Then all are asked soon; not at once, for its delete may be a moment behind.
    fn doubt(&mut self, left: Option<Duration>) {
        let now = self.live.quorum.clock.now();
        let ends = left.map(|left| now + left);
        let near = |one: Instant, two: Instant| one.since(two).max(two.since(one)) <= SAME_END;
        let same = ends.zip(self.scouted).is_some_and(|(ends, before)| near(ends, before));
        if ends.is_none() || same {
            self.all_by = self.all_by.min(now + self.live.contention.rounds());
        }
        self.scouted = ends;
    }

    /// How long to sleep before the next round; `None` where there is none.
    fn pause(&mut self, ticket: &Ticket) -> Option<Duration> {
        if self.wait.is_some_and(|wait| self.waited() >= wait) {
            return None;
        }
        match self.last {
            Refusal::Invalid(_) => None,
            Refusal::Split(_) => Some(self.split.delay()),
            Refusal::Held(free, _) => Some(self.until_free(free)),
            Refusal::Scouted(free, _) => {
                let all = self.all_by.since(self.live.quorum.clock.now());
                Some(self.until_free(free).min(all.max(SPLIT.0)))
            }
            // One of many is enough to find out that the nodes are back; a connection that opens wakes them all.
            _ if !ticket.is_first() => Some(jittered(FALLBACK)),
            Refusal::Unavailable(_) | Refusal::Late(..) | Refusal::Queued => {
                self.say_unavailable();
                Some(self.useless.delay())
            }
        }
    }

    /// Said once: whoever waits without an end may wait for a server that nobody has started.
    fn say_unavailable(&mut self) {
        let Some(since) = self.unavailable_since else { return };
        let lasted = self.live.quorum.clock.now().since(since);
        if self.said || lasted < FALLBACK {
            return;
        }
        self.said = true;
        let error = match &self.last {
            Refusal::Unavailable(nodes) => self.lock.unavailable(nodes.clone(), Some(lasted)),
            Refusal::Late(took, nodes) => self.lock.late(*took, nodes.clone(), Some(lasted)),
            _ => return,
        };
        log::event!(WARN, { key: self.lock.key() }, "still asking, as long as wait allows: {why}", why = error);
    }

    /// Until the holder's own ttl ends, or it is time to ask without having been told.
    fn until_free(&mut self, free: Option<Duration>) -> Duration {
        let nodes = &self.live.quorum.nodes;
        let told = nodes.iter().filter(|node| node.pushes()).count() * 2 > nodes.len();
        let ask = if told { jittered(FALLBACK) } else { self.poll.delay() };
        let ends = free.map(|free| free + jittered(Duration::from_millis(4)));
        ends.map_or(ask, |ends| ends.min(ask))
    }
}
