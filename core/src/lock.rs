//! What to lock: names and options, and everything that can be asked of them.

mod setters;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::acquire::{Request, check_lock_key, fence_key};
use crate::config::DEFAULT_PREFIX;
use crate::engine::Engine;
use crate::error::Result;
use crate::inspect::Inspection;
use crate::lease::{Lease, LeaseHandle, Owner};
use crate::names::{Names, check_names};
use crate::node::Claim;
use crate::options::Options;

/// What to lock. No state of its own: it can be shared by threads and tasks, and used many times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// use std::time::Duration;
/// let lock = client.lock(["cart:7", "stock:9"]).ttl(Duration::from_secs(30)).wait(Duration::ZERO).renew(true);
/// let lock = lock.max_hold(Duration::from_secs(600)).node_timeout(Duration::from_millis(200)).fencing(false);
/// let lock = lock.min_hold(Duration::ZERO);
/// assert_eq!((lock.names()[0].as_str(), lock.keys()[0].as_str()), ("cart:7", "lock:cart:7"));
/// assert_eq!(lock.key(), "lock:cart:7, lock:stock:9");
/// let lease = lock.acquire().await?;
/// assert!(lock.inspect().await?.held && lock.acquire().await.unwrap_err().code() == "timeout");
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing is locked until acquire"]
pub struct Lock {
    engine: Arc<Engine>,
    names: Arc<[String]>,
    keys: Arc<[String]>,
    options: Options,
    /// What is asked for, or the rule that it breaks: checked once, at the first use.
    request: OnceLock<Result<Arc<Request>>>,
}

impl Lock {
    /// Nothing is checked yet.
    pub(crate) fn new(engine: &Arc<Engine>, names: Names, mut options: Options) -> Self {
        let Names(names) = names;
        let keys: Arc<[String]> = names.iter().map(|name| engine.config.key(name)).collect();
        engine.config.complete(&mut options);
        let (engine, request) = (Arc::clone(engine), OnceLock::new());
        Self { engine, names, keys, options, request }
    }

    /// The same client and options, other names.
    pub(crate) fn renamed(&self, names: Names) -> Self {
        Self::new(&self.engine, names, self.options.clone())
    }

    /// What its client puts before each name.
    pub(crate) fn key_prefix(&self) -> &str {
        &self.engine.config.key_prefix
    }

    fn change(&mut self) -> &mut Options {
        self.request.take();
        &mut self.options
    }

    /// The Redis key; of several, all, separated by commas.
    pub fn key(&self) -> String {
        self.keys.join(", ")
    }

    /// The Redis keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The leases of its client on one of its keys: found by the key, however many leases there are.
    pub(crate) fn held(&self) -> Vec<LeaseHandle> {
        let Some(running) = self.engine.running() else { return Vec::new() };
        let on = self.keys.iter().flat_map(|key| running.leases().registry.on(key));
        on.filter(|state| state.is_held()).map(LeaseHandle).collect()
    }

    /// The names, without the client's prefix.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The lock with every rule checked, ready to be asked for.
    pub(crate) fn request(&self) -> Result<Arc<Request>> {
        self.request.get_or_init(|| self.checked().map(Arc::new)).clone()
    }

    fn checked(&self) -> Result<Request> {
        let keys = Arc::clone(&self.keys);
        self.engine.config.check_together(&keys, self.options.fencing)?;
        checked(&self.names, keys, self.options.clone(), self.engine.config.guard)
    }

    /// What asks for it, and what is asked for.
    pub(crate) fn parts(&self) -> (Arc<Engine>, Result<Arc<Request>>) {
        (Arc::clone(&self.engine), self.request())
    }

    /// The lease, once it is ours. Dropping the future ends the waiting and leaves no key behind.
    ///
    /// Fails when `wait` is over: with `Timeout` when somebody else held it, with `Unavailable` when too few nodes
    /// answered, which is retried all the while and logged once after a second. At once with `Invalid`, `Unsupported` and `Closed`.
    pub fn acquire(&self) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        self.acquire_as(self.options.wait, None)
    }

    /// [`Lock::acquire`] with another `wait`, for an owner who is told if it waits for itself.
    pub(crate) fn acquire_as(
        &self,
        wait: Option<Duration>,
        owner: Option<Owner>,
    ) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        let (engine, request) = self.parts();
        engine.acquire(request, wait, owner)
    }

    /// What it was made with.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The lease, or `None` if somebody else holds it or waits for it in this process: one round, no waiting.
    ///
    /// Fails with `Unavailable` when too few nodes answered, with `Invalid`, `Unsupported` and `Closed`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").try_acquire().await?;
    /// assert!(lease.is_some() && client.lock("job").try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<Option<Lease>>> + Send + 'static + use<> {
        let (engine, request) = self.parts();
        async move { engine.try_acquire(&*request?).await }
    }

    /// Continues a lease that another process holds under this token: begins with an extend round. Fails with `Lost`
    /// if the token is wrong or its time is over.
    ///
    /// Both are one owner then, and each renews for itself. A release by either, in Rust also a drop, deletes the keys:
    /// the other one is told of a loss. So whoever hands a lease over ends its own by [`LeaseHandle::detach`](crate::LeaseHandle::detach);
    /// a process that ends without a release does no harm either. The fencing token does not come with the lease:
    /// hand it over with the token. `max_hold` and `min_hold` count from here.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let ours = client.lock("job").acquire().await?;
    /// let theirs = client.lock("job").attach(ours.token()).await?; // as a rule in another process
    /// assert!(ours.detach() && theirs.is_held());
    /// # Ok(()) }
    /// ```
    pub fn attach(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        let (engine, request) = self.parts();
        let token = token.into();
        async move {
            let request = request?;
            // Its fencing token, if it has one, stays with whoever acquired it.
            let fences = Arc::default();
            let claim = Claim { keys: Arc::clone(&request.keys), fences, token };
            engine.attach(&request, &claim).await
        }
    }

    /// Who holds it, by each node's word. A snapshot: it may be over when you read it.
    ///
    /// Fails with `Unavailable` when fewer nodes than a quorum answered, with `Invalid`, `Unsupported` and `Closed`.
    pub fn inspect(&self) -> impl Future<Output = Result<Inspection>> + Send + 'static + use<> {
        let (engine, request) = self.parts();
        async move { engine.inspect(&*request?).await }
    }

    /// Deletes the keys whoever has them; true if there was one. Of the options only `node_timeout` matters.
    pub(crate) async fn force_release(self) -> Result<bool> {
        check_keys(&self.names, &self.keys)?;
        self.engine.config.check_together(&self.keys, false)?;
        let (guard, fences) = (self.engine.config.guard, Arc::default());
        let request = Request { keys: self.keys, fences, options: self.options, guard };
        self.engine.force_release(&request).await
    }
}

fn check_keys(names: &[String], keys: &[String]) -> Result<()> {
    check_names(names)?;
    keys.iter().try_for_each(|key| check_lock_key(key))
}

/// Every rule of a lock, with its reason.
fn checked(
    names: &[String],
    keys: Arc<[String]>,
    options: Options,
    guard: Duration,
) -> Result<Request> {
    check_keys(names, &keys)?;
    let fences = if options.fencing {
        keys.iter().map(|key| fence_key(key)).collect::<Result<_>>()?
    } else {
        Arc::default()
    };
    options.check(guard).map_err(|error| error.about(&keys.join(", ")))?;
    Ok(Request { keys, fences, options, guard })
}

/// The rules of a lock whose client is not known yet: one by default, over one node.
pub(crate) fn check_alone(names: &[String], options: &Options) -> Result<()> {
    let keys = names.iter().map(|name| format!("{DEFAULT_PREFIX}{name}")).collect();
    checked(names, keys, options.clone(), Duration::ZERO).map(drop)
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("key", &self.key()).finish_non_exhaustive()
    }
}
