//! The client: nodes and options.
//!
//! Words only: each method hands its question to the `engine` behind the client, which is shared by its clones
//! and its locks.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::builder::Builder;
use crate::config::Settings;
use crate::engine::Engine;
use crate::error::Result;
use crate::lease::LeaseHandle;
use crate::lock::Lock;
use crate::names::Names;
use crate::node::{Address, ConnectionInfo};
use crate::options::Options;
use crate::stats::Stats;

/// The client: nodes and options. Cheap to clone and to share; nothing connects before the first use.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let lease = client.lock("job").acquire().await?;
/// lease.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Redlock(Arc<Engine>);

impl Redlock {
    /// A client over an engine that is there already.
    #[cfg(test)]
    pub(crate) fn over(engine: Engine) -> Self {
        Self(Arc::new(engine))
    }

    /// A client over these nodes, one URL each: `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS),
    /// `redis+sentinel://host,host/service`, `redis+cluster://host,host`, `unix:///path` or `memory://[name]`. Several are a quorum of independent servers.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let client = redlock::Redlock::builder(["redis://a", "redis://b", "redis://c"]).build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder<I, S>(nodes: I) -> Builder
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Builder(Settings::of(nodes.into_iter().map(Into::into).collect()))
    }

    /// A client over the nodes that the environment names: `REDLOCK_NODES` (URLs separated by white space, or by commas
    /// followed by a scheme), else `REDIS_URL`, else `redis://127.0.0.1:6379`, which is a WARN. All else by default:
    /// [`Builder::from_env`] has options, too.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let client = redlock::Redlock::from_env()?;
    /// assert!(!client.nodes().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn from_env() -> Result<Self> {
        Builder::from_env()?.build()
    }

    /// A client over the servers that clients of the `redis` crate are for, with connections of its own. Address, user,
    /// password, database, TLS and whether it verifies are taken over; [`Builder::from_connection_info`] has options, too.
    ///
    /// Certificates that were given to `redis::Client::build_with_tls` can be read by nobody: [`Builder::tls`] takes them
    /// again, and without it this is an `Invalid`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let theirs = redis::Client::open("redis://:s3cret@10.0.0.7:6380/1")?;
    /// let client = redlock::Redlock::from_connection_info([theirs.get_connection_info()])?;
    /// assert_eq!(client.nodes(), ["redis://10.0.0.7:6380/1"]);
    /// # Ok(()) }
    /// ```
    pub fn from_connection_info<'a>(
        servers: impl IntoIterator<Item = &'a ConnectionInfo>,
    ) -> Result<Self> {
        Builder::from_connection_info(servers)?.build()
    }

    /// Describes a lock on one name, or on several (1,000 at most) as one; nothing is sent. [`Lock`] has its options.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// assert_eq!(client.lock("job").key(), "lock:job");
    /// # Ok(()) }
    /// ```
    pub fn lock(&self, names: impl Into<Names>) -> Lock {
        Lock::new(&self.0, names.into(), Options::default())
    }

    /// The lock with these options, of which none is checked yet.
    pub(crate) fn lock_with(&self, names: Vec<String>, options: Options) -> Lock {
        Lock::new(&self.0, names.into(), options)
    }

    /// Deletes the keys of these names on every node, whoever holds them; true if there was one.
    ///
    /// The holder, if it runs, is told that its lease is lost. Fails with `Unavailable` without a quorum's answers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert!(client.force_release("job").await?);
    /// assert_eq!(lease.lost().await.code(), "lost");
    /// # Ok(()) }
    /// ```
    pub fn force_release(
        &self,
        names: impl Into<Names>,
    ) -> impl Future<Output = Result<bool>> + Send + 'static {
        let lock = self.lock(names);
        async move { lock.force_release().await }
    }

    /// The leases this client holds now.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert_eq!(client.leases()[0].token(), lease.token());
    /// # Ok(()) }
    /// ```
    pub fn leases(&self) -> Vec<LeaseHandle> {
        self.0.leases()
    }

    /// Gives back every lease this client holds; the number of them, or the first error once all were tried.
    ///
    /// Whoever still runs under one is told that it is lost, with reason `revoked`. Sent at the call.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert_eq!(client.release_all().await?, 1);
    /// assert_eq!(lease.lost().await.reason(), Some("revoked"));
    /// # Ok(()) }
    /// ```
    pub fn release_all(&self) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        self.0.release_all()
    }

    /// Ends the client in order. Returns how many leases were still held at the timeout.
    ///
    /// From the call on, new acquires fail with `Closed`. Acquires that wait already have up to `timeout` to get their
    /// lease, and held leases to be released. At the timeout, acquires that still wait fail with `Closed`. Leases that are
    /// still held are released, and their holders are notified of a loss with reason `revoked`. With a `timeout` of zero
    /// both happen at the call.
    ///
    /// Ends when the nodes have confirmed every delete, or after `node_timeout`. A node that cannot be reached and has
    /// pending deletes gets until `timeout` to return.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no quorum confirmed a delete. Those keys expire when their TTL ends. The client is closed
    /// nevertheless.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// lease.release().await?;
    /// assert_eq!(client.shutdown(std::time::Duration::from_secs(10)).await?, 0);
    /// # Ok(()) }
    /// ```
    pub fn shutdown(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        self.0.shutdown(timeout)
    }

    /// Ends the client at once: waiting acquires fail with `Closed`, and leases still held are lost with reason
    /// `closed`. Nothing is deleted under a body that still runs: keys live out their ttl, unless released before.
    /// [`Redlock::shutdown`] is the orderly way.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// client.close();
    /// assert_eq!(client.lock("job").acquire().await.unwrap_err().code(), "closed");
    /// # Ok(()) }
    /// ```
    pub fn close(&self) {
        self.0.close();
    }

    /// What this client has done in this process so far, in numbers; a forked child's begin at 0.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// client.lock("job").acquire().await?.release().await?;
    /// let stats = client.stats();
    /// assert_eq!((stats.granted, stats.released, stats.held, stats.waiting), (1, 1, 0, 0));
    /// # Ok(()) }
    /// ```
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// The nodes' URLs, without passwords.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let client = redlock::Redlock::builder(["redis://user:secret@127.0.0.1"]).build()?;
    /// assert_eq!(client.nodes(), ["redis://127.0.0.1:6379"]);
    /// # Ok(()) }
    /// ```
    pub fn nodes(&self) -> Vec<String> {
        self.0.config.nodes.iter().map(Address::redacted).collect()
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}

impl Builder {
    /// The client, or the rule that an option broke. Nothing is sent.
    ///
    /// Fails with `Invalid`. Certificates are read here, servers are asked at the first use.
    pub fn build(self) -> Result<Redlock> {
        Ok(Redlock(Arc::new(Engine::new(self.0.checked()?))))
    }
}
