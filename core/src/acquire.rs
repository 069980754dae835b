//! The acquire loop: ask, count, wait, ask again, until the deadline.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Instant, NEVER};
use crate::error::{Error, Result, seconds};
use crate::lease::Lease;
use crate::live::Live;
use crate::lock::Lock;
use crate::round::{Odds, Refusal, Round, round};
use crate::state::Owner;
use crate::wait::{Backoff, jittered};

/// How long a waiter relies on being told before it asks anyway.
const FALLBACK: Duration = Duration::from_secs(1);
/// Between rounds that votes were split over: some round-trip times, growing while the contention lasts.
const SPLIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// What whoever waits for a lock of its own is told.
pub const NOT_REENTRANT: &str = "a lock is not reentrant";
/// Between rounds where no node can tell of a change.
const POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

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
    lock.handed_out(granted)
}

pub(crate) async fn try_acquire(lock: Lock) -> Result<Option<Lease>> {
    let lock = lock.checked()?;
    let live = lock.client.live(&lock.key())?;
    let ticket = live.queue.join(&lock.keys);
    if !ticket.is_head() {
        return Ok(None);
    }
    match round(&lock, &live, NEVER, Odds::Unknown).await {
        Round::Granted(lease) => lock.handed_out(lease).map(Some),
        Round::Refused(Refusal::Unavailable(nodes)) => Err(lock.unavailable(nodes)),
        Round::Refused(Refusal::Late(took, nodes)) => Err(lock.late(took, nodes)),
        Round::Refused(Refusal::Invalid(text)) => Err(lock.invalid(text)),
        Round::Refused(_) => Ok(None),
    }
}

/// One acquire from its first round to its deadline.
struct Attempt<'a> {
    lock: &'a Lock,
    live: &'a Arc<Live>,
    started: Instant,
    wait: Option<Duration>,
    /// Who asks, where the language knows.
    owner: Option<Owner>,
    last: Refusal,
    /// Had to let others of this process go first.
    queued: bool,
    /// Since when the nodes have been no use: too many of them faults, or all too slow for the ttl.
    unavailable_since: Option<Instant>,
    split: Backoff,
    poll: Backoff,
    odds: Odds,
    /// Rounds that others won.
    losses: u32,
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
            odds: Odds::Good,
            losses: 0,
        }
    }

    async fn run(&mut self) -> Result<Lease> {
        let clock = Arc::clone(&self.live.quorum.clock);
        let ticket = self.live.queue.join(&self.lock.keys);
        self.queued = !ticket.is_head();
        if self.queued {
            tokio::select! {
                biased;
                () = ticket.turn() => {}
                () = self.deadline() => return Err(self.failure()),
            }
        }
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
            match round(self.lock, self.live, end, self.odds).await {
                Round::Granted(lease) => {
                    self.live.contention.note(&self.lock.keys, self.odds == Odds::Poor);
                    return Ok(lease);
                }
                Round::Refused(refusal) => self.note(refusal, cut),
            }
            let Some(pause) = self.pause() else { return Err(self.failure()) };
            // After a split, being woken at once would only split the votes again.
            let told = !matches!(self.last, Refusal::Split);
            tokio::select! {
                biased;
                () = clock.sleep_until(clock.now() + pause) => {}
                () = interest.changed_since(mark), if told => self.defer().await,
                () = self.deadline() => return Err(self.failure()),
            }
        }
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

    fn waited(&self) -> Duration {
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
            _ if !unavailable => None,
            None => Some(self.live.quorum.clock.now()),
            since => since,
        };
        if !matches!(refusal, Refusal::Split) {
            self.split = Backoff::new(SPLIT.0, SPLIT.1);
        }
        if matches!(refusal, Refusal::Held(_) | Refusal::Split) {
            self.losses += u32::from(self.odds == Odds::Poor);
            self.odds = Odds::Poor;
        }
        self.last = refusal;
    }

    /// How long to sleep before the next round; `None` where there is none.
    fn pause(&mut self) -> Option<Duration> {
        if self.wait.is_some_and(|wait| self.waited() >= wait) {
            return None;
        }
        let now = self.live.quorum.clock.now();
        match self.last {
            Refusal::Invalid(_) => None,
            Refusal::Split => Some(self.split.delay()),
            Refusal::Held(free) => Some(self.until_free(free)),
            Refusal::Unavailable(_) | Refusal::Late(..) | Refusal::Queued => {
                let since = self.unavailable_since.map_or(Duration::ZERO, |at| now.since(at));
                (since < self.lock.options.ttl).then(|| self.poll.delay())
            }
        }
    }

    /// Until the holder's own ttl ends, or it is time to ask without having been told.
    fn until_free(&mut self, free: Option<Duration>) -> Duration {
        let nodes = &self.live.quorum.nodes;
        let told = nodes.iter().filter(|node| node.pushes()).count() * 2 > nodes.len();
        let ask = if told { jittered(FALLBACK) } else { self.poll.delay() };
        let ends = free.map(|free| free + jittered(Duration::from_millis(4)));
        ends.map_or(ask, |ends| ends.min(ask))
    }

    fn failure(&mut self) -> Error {
        let (why, remaining) = match &mut self.last {
            Refusal::Unavailable(nodes) => {
                let nodes = std::mem::take(nodes);
                return self.lock.unavailable(nodes).with_waited(self.waited());
            }
            Refusal::Late(took, nodes) => {
                let (took, nodes) = (*took, std::mem::take(nodes));
                return self.lock.late(took, nodes).with_waited(self.waited());
            }
            Refusal::Invalid(text) => return self.lock.invalid(std::mem::take(text)),
            Refusal::Queued => ("others in this process were first".to_owned(), None),
            Refusal::Split => ("the votes stayed split".to_owned(), None),
            Refusal::Held(None) => {
                ("somebody else holds it, without a known end: its key has no ttl".to_owned(), None)
            }
            Refusal::Held(Some(left)) => {
                let left = *left;
                (
                    format!("somebody else holds it, for {} unless renewed", seconds(left)),
                    Some(left),
                )
            }
        };
        let keeper = &self.live.keeper;
        let held = |key: &String| keeper.holders(key).into_iter().find(|state| state.held());
        let own = self.lock.keys.iter().find_map(held);
        let note = own.map_or_else(String::new, |state| {
            let place = state.acquired_at();
            match self.owner.filter(|owner| state.owner.get() == Some(owner)) {
                Some(Owner(who, _)) => format!("; {who} holds it itself{place}: {NOT_REENTRANT}"),
                None => format!("; this client holds it{place}"),
            }
        });
        Error::timeout(&self.lock.key(), self.waited(), &format!("{why}{note}"))
            .with_remaining(remaining)
    }
}
