//! A lock: its names and options, and the operations on it.

mod calls;
mod checks;
mod leader;
mod once;
mod own;
mod rwlock;

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use once_cell::race::OnceBox;

use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::lease::Lease;
use crate::node::LabelOption;
use crate::options::lock::{Options, Request};
use crate::options::names::doubt;
use crate::primitive::{Kind, Primitive};
use crate::text::shown;
pub(crate) use calls::outcome;
pub(crate) use checks::check_alone;
use checks::{check_keys, checked, primitive};

pub use crate::engine::{Inspection, NodeInspection, NodePing, Ping};
pub use crate::options::names::Names;
pub use leader::Leader;
pub use once::Once;
pub use rwlock::RwLock;

/// A lock on one name or several, with its options.
///
/// It has no state, so it can be shared by threads and tasks and used many times.
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
    /// The checked request, or the rule that it breaks. Computed at the first use. Not a `OnceLock`: if a process forks
    /// while another thread computes it, the child would wait forever.
    request: OnceBox<Result<Arc<Request>>>,
}

// A panic under any lock of the library leaves the guarded data consistent, so poisoned locks are ignored.
impl UnwindSafe for Lock {}
impl RefUnwindSafe for Lock {}

impl Lock {
    /// Makes a lock. Its rules are checked at the first use.
    pub(crate) fn new(engine: &Arc<Engine>, names: Names, mut options: Options) -> Self {
        let Names(names) = names;
        let keys: Arc<[String]> = names.iter().map(|name| engine.config.key(name)).collect();
        engine.config.complete(&mut options);
        let (engine, request) = (Arc::clone(engine), OnceBox::new());
        Self { engine, names, keys, options, request }
    }

    /// A lock with the same client and options, on other names.
    pub(crate) fn renamed(&self, names: Names) -> Self {
        Self::new(&self.engine, names, self.options.clone())
    }

    fn change(&mut self) -> &mut Options {
        self.request = OnceBox::new();
        &mut self.options
    }

    /// The Redis key, with the client's prefix. Several keys are separated by commas. For a semaphore, the key without
    /// the number of a permit.
    pub fn key(&self) -> String {
        self.keys.join(", ")
    }

    /// The Redis keys, with the client's prefix. Those of a semaphore are the keys of its permits.
    pub fn keys(&self) -> &[String] {
        if self.options.kind == Kind::Mutex {
            return &self.keys;
        }
        let request = self.request.get_or_init(|| Box::new(self.checked().map(Arc::new)));
        match request {
            Ok(request) => request.primitive.places(&request.identity),
            Err(_) => &self.keys,
        }
    }

    /// The names, without the client's prefix.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The request for this lock, with every rule checked.
    pub(crate) fn request(&self) -> Result<Arc<Request>> {
        self.request.get_or_init(|| Box::new(self.checked().map(Arc::new))).clone()
    }

    fn checked(&self) -> Result<Request> {
        let config = &self.engine.config;
        config.check_together(&self.keys)?;
        let request = checked(&self.names, &self.keys, self.options.clone(), config.guard)?;
        // The keys of a cluster have hash tags.
        let doubt = doubt(&self.names, self.options.unit, !config.is_clustered());
        Ok(Request { doubt, ..request })
    }

    pub(crate) fn parts(&self) -> (Arc<Engine>, Result<Arc<Request>>) {
        (Arc::clone(&self.engine), self.request())
    }

    /// The parts for an acquire with its own `wait`. An endless one is remembered with the lease.
    pub(crate) fn parts_with(&self, wait: Option<Duration>) -> (Arc<Engine>, Result<Arc<Request>>) {
        if wait.is_none() { self.clone().wait(None).parts() } else { self.parts() }
    }

    /// Acquires the lock. Waits up to `wait` while another owner holds it.
    ///
    /// Dropping the future stops the wait and leaves no key behind. While too few nodes reply, the acquire is retried.
    /// Without a `wait`, it is retried for [`unavailable_after`](crate::Builder::unavailable_after).
    ///
    /// A future that was polled once and is then neither polled nor dropped keeps its place in line. Later callers of
    /// this client wait behind it.
    ///
    /// # Errors
    ///
    /// - `Timeout` when `wait` is over, and another owner held the lock or no client won a majority.
    /// - `Unavailable` when `wait` is over and too few nodes replied. Without a `wait`, when that lasted for
    ///   `unavailable_after`.
    /// - `Invalid`, `Unsupported` or `Closed` immediately.
    pub fn acquire(&self) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        let (engine, request) = self.parts();
        engine.acquire(request, self.options.wait(), None)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Tries to acquire the lock once, without waiting.
    ///
    /// Returns `None` if another owner holds it, or if another caller in this process waits for it.
    ///
    /// # Errors
    ///
    /// `Unavailable` if too few nodes replied. `Invalid`, `Unsupported` or `Closed`.
    ///
    /// # Examples
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
        async move { engine.try_acquire(&request?).await }
    }

    /// Continues a lease that another process holds, by its token. Begins with an extend round.
    ///
    /// Both leases then have the same owner, and each renews separately. Releasing either one deletes the keys, and the
    /// other is notified of a loss. In Rust, dropping a [`Lease`] also releases it. To hand over a lease, end the
    /// original with [`LeaseHandle::detach`](crate::LeaseHandle::detach). A process that ends without releasing also
    /// does no harm.
    ///
    /// The attached lease has no fencing token, so pass that on with the token. `max_hold` and `min_hold` start when
    /// the lease is attached.
    ///
    /// # Errors
    ///
    /// `Lost` if the token is wrong or the lease has ended. `Unsupported` if a key has data of another type.
    /// `Unavailable`, `Invalid` or `Closed`, as for [`Lock::try_acquire`].
    ///
    /// # Examples
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
            let Some(claim) = request.primitive.claim_of(token, &request.identity) else {
                return Err(request.permanent(
                    ErrorKind::Unsupported,
                    "a lease of a semaphore cannot be attached, because its token does not tell which permit it has. \
                     Acquire another permit",
                ));
            };
            engine.attach(&request, &claim).await
        }
    }

    /// Returns a snapshot of the holder, as reported by each node. It may be outdated on return.
    ///
    /// # Errors
    ///
    /// `Unavailable` if fewer nodes than a quorum replied. `Invalid`, `Unsupported` or `Closed`.
    pub fn inspect(&self) -> impl Future<Output = Result<Inspection>> + Send + 'static + use<> {
        let (engine, request) = self.parts();
        async move { engine.inspect(&*request?).await }
    }

    /// Deletes the keys, regardless of their owners. Returns true if there was one. Of the options, only `node_timeout`
    /// matters.
    ///
    /// As [`Redlock::force_release`](crate::Redlock::force_release), and also for the permits of a semaphore.
    ///
    /// # Errors
    ///
    /// As for [`Redlock::force_release`](crate::Redlock::force_release).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let pool = client.semaphore("pool", 2);
    /// let lease = pool.acquire().await?;
    /// assert!(pool.force_release().await?);
    /// assert_eq!(lease.lost().await.code(), "lost");
    /// # Ok(()) }
    /// ```
    pub fn force_release(&self) -> impl Future<Output = Result<bool>> + Send + 'static + use<> {
        let (engine, request) = (Arc::clone(&self.engine), self.request_of_any());
        async move { engine.force_release(&request?).await }
    }

    /// The request to delete the keys. The options of an acquire are not checked.
    fn request_of_any(&self) -> Result<Request> {
        check_keys(&self.names, &self.keys)?;
        self.engine.config.check_together(&self.keys)?;
        let (guard, options) = (self.engine.config.guard, self.options.clone());
        let (identity, primitive) = match options.kind {
            Kind::Semaphore { .. } => primitive(&self.keys, &options)?,
            _ => (Arc::clone(&self.keys), Primitive::Mutex { fences: Arc::default() }),
        };
        Ok(Request { identity, primitive, options, guard, doubt: None })
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("key", &shown(&self.key())).finish_non_exhaustive()
    }
}

impl Lock {
    /// How long the lease lives without renewal. At least 100 ms, default 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.change().ttl = ttl;
        self
    }

    /// How long an acquire waits, both for another owner and for failed nodes. Zero tries once.
    ///
    /// Default `None`, which waits for another owner forever, and for failed nodes for
    /// [`unavailable_after`](crate::Builder::unavailable_after). If `None` is set, a long hold logs no warning.
    pub fn wait(mut self, wait: impl Into<Option<Duration>>) -> Self {
        self.change().wait = Some(wait.into());
        self
    }

    /// Whether to renew the lease at a third of its TTL until it is released. Default on.
    pub fn renew(mut self, renew: bool) -> Self {
        self.change().renew = renew;
        self
    }

    /// The maximum total hold time. The lease is then lost with the reason `max_hold`. Default `None`.
    pub fn max_hold(mut self, max_hold: impl Into<Option<Duration>>) -> Self {
        self.change().max_hold = max_hold.into();
        self
    }

    /// Minimum time to keep the keys after the acquire, even if the lease is released earlier. Default zero.
    ///
    /// Lets several hosts with skewed clocks run a scheduled job only once: a late host finds the lock held. It may
    /// exceed `ttl`: a release keeps the keys, and a process that dies keeps them only until their TTL ends. To keep
    /// them only after a success, use [`Redlock::once`](crate::Redlock::once).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// # use std::time::Duration;
    /// let tick = client.lock("report").ttl(Duration::from_secs(60)).min_hold(Duration::from_secs(50));
    /// tick.acquire().await?.release().await?;
    /// assert!(tick.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.change().min_hold = min_hold;
        self
    }

    /// Whether to issue a fencing token, which is larger than every earlier one of this lock. Default off.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.change().fencing = fencing;
        self
    }

    /// How many permits of a [semaphore](crate::Redlock::semaphore) each lease has. 1 to its limit, default 1.
    ///
    /// An acquire gets all of them or none, so callers of several permits do not wait for each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let slots = client.semaphore("gpu", 4);
    /// let large = slots.clone().permits(3).acquire().await?;
    /// assert!(slots.clone().permits(2).try_acquire().await?.is_none());
    /// assert!(slots.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.change().permits = permits;
        self
    }

    /// The label of this holder in the value of the keys, which other clients show as the holder. Default the client's,
    /// otherwise none.
    ///
    /// It has 1 to 48 ASCII letters, digits or characters of `._@-`. Every client that can read the keys sees it. It
    /// is not authenticated, so it informs people and must not grant access.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// # use std::time::Duration;
    /// let lock = client.lock("job").label("web-3");
    /// let lease = lock.acquire().await?;
    /// assert_eq!(lock.inspect().await?.label.as_deref(), Some("web-3"));
    /// let error = client.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("it is already held by web-3"));
    /// assert_eq!(error.holder(), Some("web-3"));
    /// # Ok(()) }
    /// ```
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.change().label = Some(LabelOption::Text(label.into().into()));
        self
    }

    /// [`Lock::label`] with the host and the process as the label, such as `web-3-4711`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lock = client.lock("job").label_host();
    /// let lease = lock.acquire().await?;
    /// assert!(lock.inspect().await?.label.unwrap().ends_with(&format!("-{}", std::process::id())));
    /// # Ok(()) }
    /// ```
    pub fn label_host(mut self) -> Self {
        self.change().label = Some(LabelOption::Host);
        self
    }

    /// How long to wait for the reply of one node. Defaults to the client's, otherwise min(1 s, ttl / 5),
    /// with `fsync` min(3 s, ttl / 3).
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.change().node_timeout = Some(timeout);
        self
    }
}
