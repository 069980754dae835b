//! What to lock, and the acquire loop: ask, count, wait, ask again, until the deadline.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::client::{Live, Redlock};
use crate::clock::Instant;
use crate::error::{Error, NodeReport, Result, seconds};
use crate::inspect::{Inspection, inspection};
use crate::lease::{Lease, State, Terms};
use crate::node::{Ask, Claim, Vote};
use crate::options::{LONG_TTL, Options, Unit, check_names, wait_from};
use crate::quorum::{Ballot, Poll, drift};
use crate::wait::{Backoff, jittered};

/// How long a waiter relies on being told before it asks anyway.
const FALLBACK: Duration = Duration::from_secs(1);
/// Between rounds that votes were split over: some round-trip times, growing while the contention lasts.
const SPLIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Between rounds where no node can tell of a change.
const POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// What to lock. No state of its own: it can be shared by threads and tasks, and used many times.
#[derive(Clone)]
pub struct Lock {
    client: Redlock,
    names: Arc<[String]>,
    keys: Arc<[String]>,
    options: Options,
}

/// How one round ended.
enum Round {
    Granted(Lease),
    /// Others have it; perhaps free after this long, `None`: unknown.
    Held(Option<Duration>),
    /// Nobody got a quorum.
    Split,
    Unavailable(Vec<NodeReport>),
}

impl Lock {
    pub(crate) fn new(client: &Redlock, names: Vec<String>, options: Options) -> Self {
        let keys = names.iter().map(|name| client.key(name)).collect();
        Self {
            client: client.clone(),
            names: names.into(),
            keys,
            options,
        }
    }

    /// How long the lease lives without renewal; default 10 s, at least 100 ms.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How long an acquire may wait for somebody else; default for ever, zero is one round.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Whether to extend at a third of the ttl until released; default on.
    #[must_use]
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// Upper bound on the total hold; default none. The lease is lost there, with reason `max_hold`.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Deadline of one vote; default the client's, else min(1 s, ttl/5).
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.options.node_timeout = Some(timeout);
        self
    }

    /// The Redis key; of several, all, separated by commas.
    pub fn key(&self) -> String {
        self.keys.join(", ")
    }

    /// The Redis keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The names, without the client's prefix.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_names(&self.names)?;
        self.options
            .check(self.client.guard())
            .map_err(|error| error.about(&self.key()))?;
        if self.options.ttl > LONG_TTL {
            let (key, ttl) = (self.key(), seconds(self.options.ttl));
            tracing::warn!(target: "redlock", %key, %ttl, "a ttl above one hour: is the unit right?");
        }
        Ok(())
    }

    /// The lease, once it is ours. Dropping the future ends the waiting and leaves no key behind.
    ///
    /// Fails with `Timeout` when somebody else held it all through `wait`; with `Unavailable` when too few nodes
    /// answered, which is retried for min(`wait`, ttl); with `Invalid`, and `Closed`.
    pub fn acquire(&self) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        self.clone().acquire_within(self.options.wait)
    }

    /// [`Lock::acquire`] for other languages: `wait` overrides the lock's own, infinity is for ever.
    pub fn acquire_args(
        &self,
        wait: Option<f64>,
        unit: Unit,
    ) -> Result<impl Future<Output = Result<Lease>> + Send + 'static + use<>> {
        let wait = wait_from(wait, unit)?.unwrap_or(self.options.wait);
        Ok(self.clone().acquire_within(wait))
    }

    /// The lease, or `None` if somebody else holds it or waits for it here: one round, no waiting.
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<Option<Lease>>> + Send + 'static + use<> {
        let lock = self.clone();
        async move {
            lock.check()?;
            let live = lock.client.live(&lock.key())?;
            let ticket = live.queue.join(&lock.keys);
            if !ticket.is_head() {
                return Ok(None);
            }
            match lock.round(&live, lock.options.node_timeout()).await {
                Round::Granted(lease) => Ok(Some(lease)),
                Round::Held(_) | Round::Split => Ok(None),
                Round::Unavailable(nodes) => Err(lock.unavailable(nodes)),
            }
        }
    }

    async fn acquire_within(self, wait: Option<Duration>) -> Result<Lease> {
        self.check()?;
        let live = self.client.live(&self.key())?;
        let clock = Arc::clone(&live.quorum.clock);
        let mut attempt = Attempt::new(&self, clock.now(), wait);
        let ticket = live.queue.join(&self.keys);
        if !ticket.is_head() {
            if wait == Some(Duration::ZERO) {
                return Err(attempt.timeout(&live, "others in this process are waiting for it"));
            }
            tokio::select! {
                () = ticket.turn() => {}
                () = self.client.closed() => return Err(Error::closed(&self.key())),
                () = attempt.deadline_passed(&live) => {
                    return Err(attempt.timeout(&live, "others in this process were first"));
                }
            }
        }
        let interest = live.watch.subscribe(&self.keys);
        loop {
            // Read before asking: a change that comes while the nodes answer is a reason to ask again.
            let mark = interest.mark();
            let patience = attempt.patience(clock.now(), self.options.node_timeout());
            let round = tokio::select! {
                round = self.round(&live, patience) => round,
                () = self.client.closed() => return Err(Error::closed(&self.key())),
            };
            let (pause, told) = match attempt.settle(&live, round) {
                Next::Done(result) => return result,
                Next::Pause(pause) => (pause, false),
                Next::Listen(pause) => (pause, true),
            };
            tokio::select! {
                () = clock.sleep_until(clock.now() + pause) => {}
                () = interest.changed_since(mark), if told => {}
                () = self.client.closed() => return Err(Error::closed(&self.key())),
                () = attempt.deadline_passed(&live) => {}
            }
        }
    }

    /// One round under a token of its own.
    async fn round(&self, live: &Arc<Live>, patience: Duration) -> Round {
        let options = &self.options;
        let ttl = options
            .max_hold
            .map_or(options.ttl, |max_hold| max_hold.min(options.ttl));
        let ask = Ask {
            ttl,
            patience,
            first: true,
        };
        let mut ballot = Ballot::open(&live.quorum, Claim::new(Arc::clone(&self.keys)), ask);
        let tally = ballot.count().await;
        if tally.met() {
            // A grant that took so long that nothing is left of it is never handed out.
            if live.quorum.clock.now() >= ballot.validity_ends() {
                return Round::Split;
            }
            ballot.keep();
            let capped = ttl < options.ttl;
            let terms = self.terms(ballot.claim.clone(), ballot.started);
            let end = (ballot.validity_ends(), options.ttl, capped);
            return Round::Granted(Lease::new(live.lease(terms, end)));
        }
        if tally.unavailable() {
            return Round::Unavailable(live.quorum.report(&ballot.votes, patience));
        }
        match free_in(&ballot.votes) {
            Some(free) => Round::Held(free),
            None => Round::Split,
        }
    }

    fn terms(&self, claim: Claim, started: Instant) -> Terms {
        Terms {
            claim,
            acquired: started,
            renew: self.options.renew,
            hold_end: self.options.max_hold.map(|max_hold| started + max_hold),
            node_timeout: self.options.node_timeout(),
            guard: self.client.guard(),
            unit: self.options.unit,
        }
    }

    fn unavailable(&self, nodes: Vec<NodeReport>) -> Error {
        Error::unavailable(&self.key(), "no quorum", nodes)
    }

    /// Continues a lease that another process holds under this token: begins with an extend round.
    /// Fails with `Lost` if the token is wrong or its time is over.
    pub fn attach(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        let lock = self.clone();
        let claim = Claim {
            keys: Arc::clone(&self.keys),
            token: token.into(),
        };
        async move {
            lock.check()?;
            let live = lock.client.live(&lock.key())?;
            let (ttl, patience) = (lock.options.ttl, lock.options.node_timeout());
            let started = live.quorum.clock.now();
            let ask = Ask {
                ttl,
                patience,
                first: false,
            };
            let mut poll = live.quorum.extend(&claim, ask);
            poll.decide(&*live.quorum.clock, started + patience).await;
            let end = started + ttl.saturating_sub(drift(ttl));
            if poll.tally.met() && live.quorum.clock.now() < end {
                return Ok(Lease::new(
                    live.lease(lock.terms(claim, started), (end, ttl, false)),
                ));
            }
            if poll.tally.denied() {
                let reason = State::loss_reason(&poll);
                return Err(Error::lost(&lock.key(), reason, Duration::ZERO));
            }
            Err(lock.unavailable(live.quorum.report(&poll, patience)))
        }
    }

    /// Who holds it, by each node's word. A snapshot: it may be over when you read it.
    pub fn inspect(&self) -> impl Future<Output = Result<Inspection>> + Send + 'static + use<> {
        let lock = self.clone();
        async move {
            lock.check()?;
            let live = lock.client.live(&lock.key())?;
            let patience = lock.options.node_timeout();
            Ok(inspection(&live.quorum, &lock.keys, patience).await)
        }
    }

    pub(crate) async fn force_release(self) -> Result<bool> {
        check_names(&self.names)?;
        let live = self.client.live(&self.key())?;
        let patience = self.options.node_timeout();
        let nodes = &live.quorum.nodes;
        let replies = nodes
            .iter()
            .map(|node| node.force_release(&self.keys))
            .collect();
        let mut poll = Poll::new(replies, |_| true);
        let deadline = live.quorum.clock.now() + patience;
        poll.decide(&*live.quorum.clock, deadline).await;
        if !poll.tally.met() {
            return Err(self.unavailable(live.quorum.report(&poll, patience)));
        }
        Ok(poll
            .answers
            .iter()
            .flatten()
            .flatten()
            .any(|deleted| *deleted))
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

/// When a quorum may be free by the holders' own ttls; the inner `None` is without a known end.
/// `None`: the nodes that refused are too few to keep a quorum from being free right now.
fn free_in(votes: &Poll<Vote>) -> Option<Option<Duration>> {
    let clean = votes.answers.iter().flatten().flatten();
    let mut held: Vec<_> = clean
        .filter_map(|vote| match vote {
            Vote::Held(left) => Some(left.unwrap_or(Duration::MAX)),
            Vote::Granted => None,
        })
        .collect();
    held.sort_unstable();
    let spare = votes.answers.len() - votes.tally.quorum();
    let decisive = held.len().checked_sub(spare + 1)?;
    let left = held[decisive];
    Some((left != Duration::MAX).then_some(left))
}

/// One acquire from its first round to its deadline.
struct Attempt<'a> {
    lock: &'a Lock,
    started: Instant,
    wait: Option<Duration>,
    unavailable_since: Option<Instant>,
    split: Backoff,
    poll: Backoff,
    remaining: Option<Duration>,
}

enum Next {
    Done(Result<Lease>),
    /// Sleep it off: being woken at once would only split the votes again.
    Pause(Duration),
    /// Sleep unless a node tells of a change.
    Listen(Duration),
}

impl<'a> Attempt<'a> {
    fn new(lock: &'a Lock, started: Instant, wait: Option<Duration>) -> Self {
        Self {
            lock,
            started,
            wait,
            unavailable_since: None,
            split: Backoff::new(SPLIT.0, SPLIT.1),
            poll: Backoff::new(POLL.0, POLL.1),
            remaining: None,
        }
    }

    async fn deadline_passed(&self, live: &Live) {
        match self.wait {
            Some(wait) => live.quorum.clock.sleep_until(self.started + wait).await,
            None => std::future::pending().await,
        }
    }

    /// How long a round may take: one vote's deadline, within what is left of `wait`; `wait` 0 is one whole round.
    fn patience(&self, now: Instant, node_timeout: Duration) -> Duration {
        match self.wait {
            None | Some(Duration::ZERO) => node_timeout,
            Some(wait) => node_timeout.min((self.started + wait).since(now)),
        }
    }

    fn settle(&mut self, live: &Live, round: Round) -> Next {
        let now = live.quorum.clock.now();
        let over = self.wait.is_some_and(|wait| now >= self.started + wait);
        match round {
            Round::Granted(lease) => Next::Done(Ok(lease)),
            Round::Unavailable(nodes) => {
                let since = *self.unavailable_since.get_or_insert(now);
                if over || now.since(since) >= self.lock.options.ttl {
                    let error = self
                        .lock
                        .unavailable(nodes)
                        .with_waited(now.since(self.started));
                    return Next::Done(Err(error));
                }
                Next::Listen(self.poll.delay())
            }
            Round::Held(free) => {
                self.unavailable_since = None;
                self.remaining = free;
                if over {
                    return Next::Done(Err(self.held(live, free)));
                }
                Next::Listen(self.until_free(live, free))
            }
            Round::Split => {
                self.unavailable_since = None;
                self.remaining = None;
                if over {
                    return Next::Done(Err(self.timeout(live, "the votes were split")));
                }
                Next::Pause(self.split.delay())
            }
        }
    }

    /// Until the holder's own ttl ends, or it is time to ask without having been told.
    fn until_free(&mut self, live: &Live, free: Option<Duration>) -> Duration {
        self.split = Backoff::new(SPLIT.0, SPLIT.1);
        let nodes = &live.quorum.nodes;
        let told = nodes.iter().filter(|node| node.pushes()).count() * 2 > nodes.len();
        let ask = if told {
            jittered(FALLBACK)
        } else {
            self.poll.delay()
        };
        let ends = free.map(|free| free + jittered(Duration::from_millis(4)));
        ends.map_or(ask, |ends| ends.min(ask))
    }

    fn held(&self, live: &Live, free: Option<Duration>) -> Error {
        match free {
            Some(left) => {
                let text = format!(
                    "somebody else holds it, for {} unless renewed",
                    seconds(left)
                );
                self.timeout(live, &text)
            }
            None => self.timeout(live, "somebody else holds it, without a known end"),
        }
    }

    fn timeout(&self, live: &Live, why: &str) -> Error {
        let waited = live.quorum.clock.now().since(self.started);
        let own = self
            .lock
            .keys
            .iter()
            .any(|key| live.keeper.holder(key).is_some_and(|s| s.held()));
        let note = if own {
            "; this client holds it itself, and a lock is not reentrant"
        } else {
            ""
        };
        Error::timeout(&self.lock.key(), waited, &format!("{why}{note}"))
            .with_remaining(self.remaining)
    }
}
