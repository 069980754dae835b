//! What to lock: names and options, and everything that can be asked of them.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{acquire, try_acquire};
use crate::attach::attach;
use crate::client::Redlock;
use crate::clock::Instant;
use crate::error::{Error, LossReason, NodeReport, Result, seconds};
use crate::fence::{check_lock_key, fence_key};
use crate::inspect::{Inspection, inspection};
use crate::lease::Lease;
use crate::live::Live;
use crate::log;
use crate::node::Claim;
use crate::options::{LONG_TTL, Options, Unit, check_names, wait_from};
use crate::quorum::Poll;
use crate::state::{Owner, Terms};
use crate::text::shown;

/// What to lock. No state of its own: it can be shared by threads and tasks, and used many times.
#[derive(Clone)]
pub struct Lock {
    pub(crate) client: Redlock,
    names: Arc<[String]>,
    pub(crate) keys: Arc<[String]>,
    /// Beside each key; empty where the key cannot have one.
    fences: Arc<[String]>,
    pub(crate) options: Options,
}

impl Lock {
    pub(crate) fn new(client: &Redlock, names: Vec<String>, options: Options) -> Self {
        let keys: Arc<[String]> = names.iter().map(|name| client.key(name)).collect();
        Self { client: client.clone(), names: names.into(), keys, fences: Arc::default(), options }
    }

    /// How long the lease lives without renewal; at least 100 ms, default 10 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How long an acquire may wait for somebody else; zero: one round; default: for ever.
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

    /// Upper bound on the whole hold, at which the lease is lost with reason `max_hold`; default none.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Whether to ask for a fencing token: larger than every earlier one of this lock; default off.
    #[must_use]
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.options.fencing = fencing;
        self
    }

    /// How long to wait for one node's answer; default the client's, else min(1 s, ttl / 5).
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

    /// A claim under a token of its own.
    pub(crate) fn claim(&self) -> Claim {
        Claim::new(Arc::clone(&self.keys), Arc::clone(&self.fences))
    }

    /// The lock with every rule checked, ready to be asked for.
    pub(crate) fn checked(mut self) -> Result<Self> {
        self.check()?;
        let ttl = self.options.ttl;
        if ttl > LONG_TTL && self.client.first_of_length(ttl) {
            log::event!(
                WARN, { key: self.key(), ttl: seconds(ttl) }, "a ttl above one hour: is the unit right?"
            );
        }
        if self.options.fencing {
            self.fences = self.keys.iter().map(|key| fence_key(key)).collect::<Result<_>>()?;
        }
        Ok(self)
    }

    fn check_keys(&self) -> Result<()> {
        check_names(&self.names)?;
        self.keys.iter().try_for_each(|key| check_lock_key(key))
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.check_keys()?;
        if self.options.fencing {
            self.keys.iter().try_for_each(|key| fence_key(key).map(drop))?;
        }
        self.options.check(self.client.guard()).map_err(|error| error.about(&self.key()))
    }

    /// The lease, once it is ours. Dropping the future ends the waiting and leaves no key behind.
    ///
    /// Fails when `wait` is over: with `Timeout` when somebody else held it, with `Unavailable` when too few nodes
    /// answered, which is retried all the while and logged once after a second. At once with `Invalid`, and `Closed`.
    pub fn acquire(&self) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        acquire(self.clone(), self.options.wait, None)
    }

    /// [`Lock::acquire`] for other languages: `wait` overrides the lock's own, infinity is for ever. An owner that waits
    /// for itself is told so.
    pub fn acquire_args(
        &self,
        wait: Option<f64>,
        unit: Unit,
        owner: Option<Owner>,
    ) -> Result<impl Future<Output = Result<Lease>> + Send + 'static + use<>> {
        let wait = wait_from(wait, unit)?.unwrap_or(self.options.wait);
        Ok(acquire(self.clone(), wait, owner))
    }

    /// The lease, or `None` if somebody else holds it or waits for it in this process: one round, no waiting.
    ///
    /// Fails with `Unavailable` when too few nodes answered, with `Invalid`, and `Closed`.
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<Option<Lease>>> + Send + 'static + use<> {
        try_acquire(self.clone())
    }

    pub(crate) fn terms(&self, claim: Claim, started: Instant, fence: Option<u64>) -> Terms {
        Terms {
            claim,
            acquired: started,
            fence,
            renew: self.options.renew,
            hold_end: self.options.max_hold.map(|max_hold| started + max_hold),
            node_timeout: self.options.node_timeout(),
            guard: self.client.guard(),
            unit: self.options.unit,
        }
    }

    /// A lease of a client that was closed meanwhile, or that nothing would renew, is given back.
    pub(crate) fn handed_out(&self, live: &Live, lease: Lease) -> Result<Lease> {
        if self.client.is_closed() {
            return Err(Error::closed(&self.key()));
        }
        if !live.works() {
            return Err(Error::lost(&self.key(), LossReason::Internal, Duration::ZERO));
        }
        Ok(lease)
    }

    /// What the nodes are asked for: the ttl, or all that `max_hold` allows.
    pub(crate) fn asked_ttl(&self) -> Duration {
        self.options.max_hold.map_or(self.options.ttl, |hold| hold.min(self.options.ttl))
    }

    pub(crate) fn invalid(&self, text: impl AsRef<str>) -> Error {
        let key = self.key();
        Error::invalid(format!("{}: {}", shown(&key), text.as_ref())).about(&key)
    }

    /// No quorum can be had: since when, where it was tried for long.
    pub(crate) fn unavailable(&self, nodes: Vec<NodeReport>, lasted: Option<Duration>) -> Error {
        Error::unavailable(&self.key(), &format!("no quorum{}", lasting(lasted)), nodes)
    }

    /// A quorum granted, and by the time its answers were in nothing was left of the lease.
    pub(crate) fn late(
        &self,
        took: Duration,
        nodes: Vec<NodeReport>,
        lasted: Option<Duration>,
    ) -> Error {
        let (took, lives) = (seconds(took), seconds(self.asked_ttl()));
        let lasted = lasting(lasted);
        let what = format!(
            "granted, but the answers took {took} and a lease of {lives} was over by then{lasted}"
        );
        Error::unavailable(&self.key(), &what, nodes)
    }

    /// Continues a lease that another process holds under this token: begins with an extend round. Fails with `Lost`
    /// if the token is wrong or its time is over.
    ///
    /// Both are one owner then, and each renews for itself. A release by either, in Rust also a drop, deletes the keys:
    /// the other one is told of a loss. So whoever hands a lease over ends its own by [`Hold::abandon`](crate::Hold::abandon);
    /// a process that ends without a release does no harm either. The fencing token does not come with the lease:
    /// hand it over with the token. `max_hold` counts from here.
    pub fn attach(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        attach(self.clone(), Claim { token: token.into(), ..self.claim() })
    }

    /// Who holds it, by each node's word. A snapshot: it may be over when you read it.
    ///
    /// Fails with `Unavailable` when fewer nodes than a quorum answered, with `Invalid`, and `Closed`.
    pub fn inspect(&self) -> impl Future<Output = Result<Inspection>> + Send + 'static + use<> {
        let lock = self.clone();
        async move {
            lock.check()?;
            let live = lock.client.live(&lock.key())?;
            let patience = lock.options.node_timeout();
            let inspection = inspection(&live.quorum, &lock.keys, patience).await;
            inspection.map_err(|nodes| lock.unavailable(nodes, None))
        }
    }

    pub(crate) async fn force_release(self) -> Result<bool> {
        self.check_keys()?;
        let live = self.client.live(&self.key())?;
        let patience = self.options.node_timeout();
        let nodes = &live.quorum.nodes;
        let replies = nodes.iter().map(|node| node.force_release(&self.keys)).collect();
        let mut poll = Poll::new(replies, |_| true);
        let deadline = live.quorum.clock.now() + patience;
        poll.decide(&*live.quorum.clock, deadline).await;
        if !poll.tally.met() {
            return Err(self.unavailable(live.quorum.report(&poll, patience), None));
        }
        Ok(poll.answers.iter().flatten().flatten().any(|deleted| *deleted))
    }
}

/// For how long, where it is worth saying.
fn lasting(time: Option<Duration>) -> String {
    let long = time.filter(|time| *time >= Duration::from_millis(1));
    long.map_or_else(String::new, |time| format!(" for {}", seconds(time)))
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("key", &self.key()).finish_non_exhaustive()
    }
}
