//! The client: nodes and options.
//!
//! Each method delegates to the `engine`, which the client shares with its clones and its locks.
//!
//! What is still sent depends on how a client ends:
//!
//! - **Dropped**, with its locks: everything that a lease needs. Leases are renewed until they end. The task of each
//!   node then sends the pending deletes over its connection (`connection/task`), or over the next one
//!   (`node_task/reconnect.rs`), and ends.
//! - **Closed** ([`Redlock::close`]): leases are lost. The deletes of each follow when its holder releases or drops it
//!   (`lease/end.rs`).
//! - **Shut down** ([`shutdown`]): the deletes of all leases, at once.

mod blocking;
mod bodies;
pub(crate) mod builder;
mod shutdown;

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::engine::Engine;
use crate::engine::running::add_to;
use crate::error::{Error, Result};
use crate::lease::LeaseHandle;
use crate::lock::{Lock, Names, Ping, RwLock};
use crate::node::ConnectionInfo;
use crate::options::Address;
use crate::options::client::Settings;
use crate::options::lock::{MIN_TTL, Options};
use crate::primitive::Kind;
use crate::telemetry::Stats;

pub use builder::Builder;

/// A client for one set of Redis nodes.
///
/// It is cheap to clone and to share. It connects at the first use.
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

// A panic under any lock of the library leaves the guarded data consistent, so poisoned locks are ignored.
impl UnwindSafe for Redlock {}
impl RefUnwindSafe for Redlock {}

impl Redlock {
    #[cfg(feature = "simulation")]
    pub(crate) fn from_engine(engine: Engine) -> Self {
        Self(Arc::new(engine))
    }

    /// Starts building a client for these nodes. Several nodes are a quorum of independent servers.
    ///
    /// Each node is a URL of one of these forms:
    ///
    /// - `redis://[user:password@]host[:port][/db]`, or `rediss://` with TLS
    /// - `redis+sentinel://host,host/service`
    /// - `redis+cluster://host,host`
    /// - `unix:///path`
    /// - `memory://[name]`
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
        Builder(Settings::for_nodes(nodes.into_iter().map(Into::into).collect()))
    }

    /// A client for the nodes that the environment names, with default options.
    ///
    /// It uses `REDLOCK_NODES` (URLs separated by white space, or by commas followed by a scheme), then `REDIS_URL`,
    /// then `redis://127.0.0.1:6379`. The last case is logged as a WARN. Use [`Builder::from_env`] to set options.
    ///
    /// # Errors
    ///
    /// `Invalid` if a URL breaks a rule.
    ///
    /// # Examples
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

    /// A client for the servers of existing `redis` crate clients. It opens separate connections.
    ///
    /// It takes over the address, user, password, database, TLS, and whether TLS verifies the server. Use
    /// [`Builder::from_connection_info`] to set options.
    ///
    /// # Errors
    ///
    /// - `Invalid` if a setting has no counterpart in this library.
    /// - `Invalid` if a client was made by `redis::Client::build_with_tls`, because its certificates cannot be read.
    ///   Pass them to [`Builder::tls`] instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let theirs = redis::Client::open("redis://:s3cret@10.0.0.7:6380/1")?;
    /// let client = redlock::Redlock::from_connection_info([theirs.get_connection_info()])?;
    /// assert_eq!(client.nodes(), ["redis://10.0.0.7:6380/1"]);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "redis")]
    pub fn from_connection_info<'a>(
        servers: impl IntoIterator<Item = &'a ConnectionInfo>,
    ) -> Result<Self> {
        Builder::from_connection_info(servers)?.build()
    }

    /// Describes a lock on one name, or on up to 1,000 names as one. Sends nothing. [`Lock`] has the options.
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

    /// Describes a semaphore: at most `limit` of its permits have owners at a time. Sends nothing.
    ///
    /// The lock acquires one permit, or [`Lock::permits`]. Each permit is a separate key and expires with its lease, so
    /// a process that dies loses none. Clients with different limits may use one name: the largest limit applies.
    ///
    /// `limit` is 1 to 1000, and meant for up to 100, because each acquire reads the keys of all permits. Fencing
    /// tokens and [`Lock::attach`] are not available. [`Lock::try_acquire`] and a `wait` of zero may take up to four
    /// rounds.
    ///
    /// # Errors
    ///
    /// The first use of the lock returns `Invalid` if `limit` or `permits` is out of range, or for several names.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let exports = client.semaphore("exports", 2);
    /// let (_one, _two) = (exports.acquire().await?, exports.acquire().await?);
    /// assert!(exports.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn semaphore(&self, name: impl Into<Names>, limit: u32) -> Lock {
        let options = Options { kind: Kind::Semaphore { limit }, ..Options::default() };
        Lock::new(&self.0, name.into(), options)
    }

    /// Describes a read/write lock: any number of readers hold it at a time, or one writer. Sends nothing.
    ///
    /// Waiting readers and waiting writers take turns, so neither waits forever for the other. [`Redlock::lock`] on the
    /// same name excludes both sides, but takes no turns. A holder that acquires the other side waits for itself.
    ///
    /// It is meant for up to 100 readers at a time. It needs Redis 6.2 or later.
    ///
    /// # Errors
    ///
    /// The first use of a side returns `Invalid` for several names.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let config = client.rwlock("config");
    /// let readers = (config.read().acquire().await?, config.read().acquire().await?);
    /// assert!(config.write().try_acquire().await?.is_none());
    /// drop(readers);
    /// let _writer = config.write().acquire().await?;
    /// # Ok(()) }
    /// ```
    pub fn rwlock(&self, name: impl Into<Names>) -> RwLock {
        RwLock::new(&self.0, name.into())
    }

    pub(crate) fn lock_with(&self, names: Vec<String>, options: Options) -> Lock {
        Lock::new(&self.0, names.into(), options)
    }

    /// Deletes the keys of these names on every node, regardless of their owner. Returns true if there was one.
    ///
    /// A running holder is notified of the loss. A silent node delays the call by `node_timeout`. A delete that is not
    /// confirmed is repeated until the key's TTL would have ended, or for 10 minutes if it has none.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no quorum replied. `Unsupported` if the key has a value of another type, or one that is not a
    /// token. It is then no lock, and stays.
    ///
    /// # Examples
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
        self.lock(names).force_release()
    }

    /// Asks each node whether it would grant a lock now, and waits for all replies within `timeout`. For readiness
    /// probes.
    ///
    /// It sends a write of a random key that has no effect, because the key does not exist. A replica, a server that is
    /// loading, and one without memory or disk refuse it. Nodes that fail are part of the result, and no error.
    ///
    /// # Errors
    ///
    /// `Closed` if the client is closed. `Invalid` for a timeout of 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let ping = client.ping(std::time::Duration::from_secs(1)).await?;
    /// for node in &ping.nodes {
    ///     println!("{}: {:?} {:?}", node.url, node.latency, node.error);
    /// }
    /// assert!(ping.ready);
    /// # Ok(()) }
    /// ```
    pub fn ping(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Ping>> + Send + 'static + use<> {
        // No lock has this name.
        let name = format!("redlock-ping-{}", Uuid::new_v4().simple());
        // Times that break no rule, whatever the options of the client. A ping uses neither.
        let lock = self.lock(name).ttl(MIN_TTL).node_timeout(MIN_TTL / 2);
        let (engine, request) = (Arc::clone(&self.0), lock.request());
        async move {
            let request = request?;
            if timeout.is_zero() {
                return Err(Error::invalid("the timeout of ping must be above 0"));
            }
            engine.ping(&request, timeout).await
        }
    }

    /// The leases that this client holds now.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert_eq!(client.leases()[0].token(), lease.token());
    /// # Ok(()) }
    /// ```
    pub fn leases(&self) -> Vec<LeaseHandle> {
        let states = self.0.running().map(|running| running.leases().registry.leases());
        // Checking a lease also marks it as lost if its deadline has passed.
        let held = states.into_iter().flatten().filter(|state| state.is_held());
        held.map(LeaseHandle).collect()
    }

    /// Ends the client immediately. Use [`Redlock::shutdown`] to end it in order.
    ///
    /// Waiting acquires fail with `Closed`, and held leases are lost with reason `closed`. Their keys are not deleted,
    /// because the protected code may still run. They expire when their TTL ends, unless they are released before.
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

    /// Statistics of this client in this process. They start at 0 in a forked child.
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
        let mut stats = self.0.counts().snapshot();
        if let Some(running) = self.0.running() {
            add_to(&running.acquirer, &mut stats);
        }
        stats
    }

    /// The URLs of the nodes, without passwords.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let client = redlock::Redlock::builder(["redis://user:secret@127.0.0.1"]).build()?;
    /// assert_eq!(client.nodes(), ["redis://127.0.0.1:6379"]);
    /// # Ok(()) }
    /// ```
    pub fn nodes(&self) -> Vec<String> {
        self.0.config.nodes.iter().map(Address::shown_url).collect()
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}

/// The nodes without passwords. A URL that breaks a rule is left out, because it could contain one anywhere.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let valid = self.0.nodes.iter().filter_map(|node| Address::parse(node).ok());
        let nodes: Vec<_> = valid.map(|node| node.shown_url()).collect();
        f.debug_struct("Builder").field("nodes", &nodes).finish_non_exhaustive()
    }
}

impl Builder {
    /// Checks the options and makes the client. Sends nothing.
    ///
    /// It reads certificate files. The servers are contacted at the first use.
    ///
    /// # Errors
    ///
    /// `Invalid` if an option breaks a rule.
    pub fn build(self) -> Result<Redlock> {
        Ok(Redlock(Arc::new(Engine::new(self.0.checked()?))))
    }
}
