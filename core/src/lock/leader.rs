//! The leader of an election: bodies that run one after the other, each under the lease of a term.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::calls::{ended, outcome, while_held};
use super::{Lock, Names};
use crate::engine::Engine;
use crate::error::{Error, LossReason, Result};
use crate::lease::{Lease, LeaseHandle};
use crate::options::lock::Options;
use crate::text::shown;

/// A candidate of an election, of which at most one leads at a time, over all clients.
///
/// Clones are the same candidate. It can be shared by threads and tasks and used many times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let leader = client.leader("scheduler").ttl(std::time::Duration::from_secs(10)).label("web-3");
/// let led = leader.run(async |_| {
///     assert!(leader.is_leading());
///     leader.current().await
/// });
/// assert_eq!(led.await?.as_deref(), Some("web-3"));
/// assert_eq!((leader.is_leading(), leader.current().await?), (false, None)); // The body returned, so it resigned.
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing leads until run or campaign"]
pub struct Leader {
    /// Clones share it, and with it the request by which `is_leading` finds their leases.
    lock: Arc<Lock>,
}

impl Leader {
    /// Makes a candidate. Its rules are checked at the first use.
    pub(crate) fn new(engine: &Arc<Engine>, name: Names) -> Self {
        Self { lock: Arc::new(Lock::new(engine, name, Options::of_leader())) }
    }

    /// Campaigns until it leads, runs `body` under the lease of the term, and resigns when the body returns. Returns
    /// the value of the body.
    ///
    /// If the lease is lost, the body is dropped at its next `await`, and the next campaign begins. The same happens if
    /// the body ends after the loss, and its value or error is then dropped. A campaign has no time limit and survives
    /// outages. Dropping the future ends the campaign or resigns.
    ///
    /// # Errors
    ///
    /// - The error of the body, if the lease was not lost.
    /// - `Invalid`, `Unsupported` or `Closed`, or `Unavailable` if the servers refuse the login or the commands.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let leader = client.leader("scheduler");
    /// let mut terms = 0;
    /// let led = leader.run(|lease| {
    ///     terms += 1;
    ///     let (client, is_first) = (client.clone(), terms == 1);
    ///     async move {
    ///         if is_first {
    ///             client.force_release("scheduler").await?; // The lease is lost, so the body is dropped.
    ///             std::future::pending().await
    ///         }
    ///         lease.ensure_held()
    ///     }
    /// });
    /// led.await?;
    /// assert_eq!(terms, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// In a spawned task, the body owns what it uses, and each term clones that.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let (leader, queue) = (client.leader("scheduler"), Arc::new(vec!["job"]));
    /// let led = tokio::spawn(leader.run(move |_lease| {
    ///     let queue = Arc::clone(&queue);
    ///     async move { Ok::<_, redlock::Error>(queue.len()) }
    /// }));
    /// assert_eq!(led.await.unwrap()?, 1);
    /// # Ok(()) }
    /// ```
    pub fn run<T, E, F, B>(
        &self,
        mut body: F,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, F, B>
    where
        F: FnMut(LeaseHandle) -> B,
        B: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        // The body is not an `AsyncFnMut`, because the future of this function could then not be spawned.
        let lock = Arc::clone(&self.lock);
        let mut campaign = lock.acquire();
        async move {
            loop {
                let lease = campaign.await?;
                let result = while_held(&lease, body(lease.handle())).await.ok();
                if let Some(result) = end_of_term(lease, result).await {
                    return result;
                }
                campaign = lock.acquire();
            }
        }
    }

    /// [`Leader::run`] for programs without a runtime. A loss does not end the body: it can check the lease. The next
    /// campaign begins when the body has returned.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let leader = client.leader("scheduler");
    /// assert!(leader.run_blocking(|lease| Ok::<_, redlock::Error>(lease.is_held()))?);
    /// # Ok(()) }
    /// ```
    pub fn run_blocking<T, E, F>(&self, mut body: F) -> Result<T, E>
    where
        F: FnMut(LeaseHandle) -> Result<T, E>,
        E: From<Error>,
    {
        loop {
            let lease = self.lock.acquire_blocking()?;
            let result = body(lease.handle());
            if let Some(result) = outcome(|| end_of_term(lease, Some(result))) {
                return result;
            }
        }
    }

    /// Campaigns until it leads, and returns the lease of one term. Releasing or dropping the lease resigns.
    ///
    /// # Errors
    ///
    /// As [`Leader::run`], without a body.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let term = client.leader("scheduler").fencing(true).campaign().await?;
    /// assert!(term.fencing_token()? > 0);
    /// term.release().await // Another one takes over.
    /// # }
    /// ```
    pub fn campaign(&self) -> impl Future<Output = Result<Lease>> + Send + 'static + use<> {
        self.lock.acquire()
    }

    /// [`Leader::campaign`] for programs without a runtime.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// client.leader("scheduler").campaign_blocking()?.release_blocking()
    /// # }
    /// ```
    pub fn campaign_blocking(&self) -> Result<Lease> {
        self.lock.acquire_blocking()
    }

    /// Whether this candidate leads at this moment, in a term of `run` or `campaign`.
    ///
    /// Compares the deadline of its lease with the clock, without I/O.
    pub fn is_leading(&self) -> bool {
        self.lock.is_held()
    }

    /// Asks the nodes for the leader, and returns its label, or `None` if there is none. It may be outdated on return.
    ///
    /// The label is empty if a client holds a plain lock of this name without a label.
    ///
    /// # Errors
    ///
    /// `Unavailable` if fewer nodes than a quorum replied. `Invalid`, `Unsupported` or `Closed`.
    pub fn current(&self) -> impl Future<Output = Result<Option<String>>> + Send + 'static + use<> {
        self.lock.leader()
    }

    /// [`Leader::current`] for programs without a runtime.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// assert_eq!(client.leader("scheduler").current_blocking()?, None);
    /// # Ok(()) }
    /// ```
    pub fn current_blocking(&self) -> Result<Option<String>> {
        outcome(|| self.current())
    }

    fn changed(self, change: impl FnOnce(Lock) -> Lock) -> Self {
        Self { lock: Arc::new(change(Arc::unwrap_or_clone(self.lock))) }
    }

    /// [`Lock::ttl`]: how soon another one takes over after a process died. Default 10 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.changed(|lock| lock.ttl(ttl))
    }

    /// [`Lock::label`], which [`Leader::current`] returns. Default the client's, otherwise the host and the process.
    pub fn label(self, label: impl Into<String>) -> Self {
        self.changed(|lock| lock.label(label))
    }

    /// [`Lock::max_hold`]: the maximum time of a term. The next campaign may win again. Default none.
    pub fn max_hold(self, max_hold: impl Into<Option<Duration>>) -> Self {
        self.changed(|lock| lock.max_hold(max_hold))
    }

    /// [`Lock::fencing`]: whether each term has a fencing token, which is larger than those before. Default off.
    pub fn fencing(self, fencing: bool) -> Self {
        self.changed(|lock| lock.fencing(fencing))
    }

    /// [`Lock::node_timeout`].
    pub fn node_timeout(self, timeout: Duration) -> Self {
        self.changed(|lock| lock.node_timeout(timeout))
    }
}

impl Lock {
    /// Returns the label of the holder, which is empty if it has none, or `None` if the lock is not held.
    pub(crate) fn leader(
        &self,
    ) -> impl Future<Output = Result<Option<String>>> + Send + 'static + use<> {
        let found = self.inspect();
        async move { found.await.map(|found| found.held.then(|| found.label.unwrap_or_default())) }
    }
}

/// Resigns at the end of a body. Returns its result, or `None` if the lease was lost, so that the next campaign begins.
///
/// A forked child does not campaign for a term of its parent.
async fn end_of_term<T, E>(lease: Lease, result: Option<Result<T, E>>) -> Option<Result<T, E>>
where
    E: From<Error>,
{
    match ended(lease, true).await {
        Ok(()) => result,
        Err(error) if error.loss_reason() == Some(LossReason::Forked) => Some(Err(error.into())),
        Err(_) => None,
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").field("key", &shown(&self.lock.key())).finish_non_exhaustive()
    }
}
