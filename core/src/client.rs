//! The client: validated nodes and options.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use crate::background::{self, fork_generation};
use crate::builder::{Builder, Config};
use crate::error::{Error, LossReason, Result};
use crate::lease::Hold;
use crate::live::Live;
use crate::lock::Lock;
use crate::node::Address;
use crate::options::{ClientArgs, LockArgs, Names, Options};

/// The client: nodes and options. Cheap to clone and to share; nothing connects before the first use.
#[derive(Clone)]
pub struct Redlock(Arc<Inner>);

struct Inner {
    config: Config,
    live: ArcSwapOption<Live>,
    closed: AtomicBool,
    closing: Notify,
    /// The longest ttl asked for so far, in seconds.
    longest: AtomicU64,
}

impl Redlock {
    /// A client over nodes that are there already.
    #[cfg(test)]
    pub(crate) fn over(config: Config, live: Live) -> Self {
        let client = Self::new(config);
        client.0.live.store(Some(Arc::new(live)));
        client
    }

    pub(crate) fn new(config: Config) -> Self {
        Self(Arc::new(Inner {
            config,
            live: ArcSwapOption::empty(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            longest: AtomicU64::new(0),
        }))
    }

    /// A client over these nodes, one URL each: `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS),
    /// `unix:///path` or `memory://[name]`. Several are a quorum of independent servers.
    pub fn builder<I, S>(nodes: I) -> Builder
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Builder::new(nodes.into_iter().map(Into::into).collect())
    }

    /// [`Redlock::builder`] for other languages.
    pub fn from_args(nodes: Vec<String>, args: &ClientArgs) -> Result<Self> {
        let time =
            |name, value: Option<f64>| value.map(|v| args.unit.duration(name, v)).transpose();
        let mut builder = Self::builder(nodes);
        builder.node_timeout = time("node_timeout", args.node_timeout)?;
        builder.restart_guard = time("restart_guard", args.restart_guard)?;
        builder.tls = args.tls.clone();
        if let Some(prefix) = &args.key_prefix {
            builder = builder.key_prefix(prefix.clone());
        }
        builder.build()
    }

    /// Describes a lock on one name, or on several (1,000 at most) as one; nothing is sent. [`Lock`] has its options.
    pub fn lock(&self, names: impl Into<Names>) -> Lock {
        let options = Options { node_timeout: self.0.config.node_timeout, ..Options::default() };
        Lock::new(self, names.into().0, options)
    }

    /// [`Redlock::lock`] for other languages: every option is checked at once.
    pub fn lock_from_args(&self, names: Vec<String>, args: &LockArgs) -> Result<Lock> {
        let mut options = Options::from_args(args)?;
        options.node_timeout = options.node_timeout.or(self.0.config.node_timeout);
        let lock = Lock::new(self, names, options);
        lock.check()?;
        Ok(lock)
    }

    /// Deletes the keys of these names on every node, whoever holds them; true if there was one.
    ///
    /// The holder, if it runs, is told that its lease is lost. Fails with `Unavailable` without a quorum's answers.
    pub fn force_release(
        &self,
        names: impl Into<Names>,
    ) -> impl Future<Output = Result<bool>> + Send + 'static {
        let lock = self.lock(names);
        async move { lock.force_release().await }
    }

    /// The leases this client holds now.
    pub fn leases(&self) -> Vec<Hold> {
        let states = self.running().map(|live| live.keeper.leases()).unwrap_or_default();
        states.into_iter().filter(|state| state.held()).map(Hold).collect()
    }

    /// Ends the client at once: waiting acquires fail with `Closed`, and leases still held are lost with reason
    /// `closed`. Nothing is deleted under a body that still runs: keys live out their ttl, unless released before.
    /// [`Redlock::shutdown`] is the orderly way.
    pub fn close(&self) {
        self.refuse();
        if let Some(live) = self.0.live.swap(None) {
            if live.generation == fork_generation() {
                live.keeper.leases().iter().for_each(|state| state.lose(LossReason::Closed));
            } else {
                std::mem::forget(live);
            }
        }
    }

    /// Nothing new from now on: acquires, also those that wait, fail with `Closed`.
    pub(crate) fn refuse(&self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.closing.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// What runs behind the client in this process, if something was asked already.
    pub(crate) fn running(&self) -> Option<Arc<Live>> {
        self.0.live.load_full().filter(|live| live.generation == fork_generation())
    }

    /// The deadline of one vote where no lock says otherwise.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.0.config.node_timeout.unwrap_or(Duration::from_secs(1))
    }

    /// The nodes' URLs, without passwords.
    pub fn nodes(&self) -> Vec<String> {
        self.0.config.nodes.iter().map(Address::redacted).collect()
    }

    pub(crate) fn guard(&self) -> Duration {
        self.0.config.guard
    }

    /// Whether no lease was asked for that long: what is warned of is warned of once, not at every acquire.
    pub(crate) fn first_of_length(&self, ttl: Duration) -> bool {
        ttl.as_secs() > self.0.longest.fetch_max(ttl.as_secs(), Ordering::Relaxed)
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.0.config.key_prefix)
    }

    pub(crate) fn live(&self, key: &str) -> Result<Arc<Live>> {
        loop {
            if self.is_closed() {
                return Err(Error::closed(key));
            }
            let current = self.0.live.load();
            match &*current {
                Some(live) if live.works() => return Ok(Arc::clone(live)),
                stale => {
                    background::handle().map_err(|error| Error::no_thread(key, &error))?;
                    let started = Arc::new(Live::start(&self.0.config));
                    let previous = self.0.live.compare_and_swap(stale, Some(started));
                    if let Some(parents) = previous.as_ref()
                        && parents.generation != fork_generation()
                    {
                        // Ending the parent's connections from its child would write into the parent's sockets.
                        std::mem::forget(Arc::clone(parents));
                    }
                }
            }
        }
    }

    /// Ends when the client is closed.
    pub(crate) async fn closed(&self) {
        let mut closing = std::pin::pin!(self.0.closing.notified());
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}
