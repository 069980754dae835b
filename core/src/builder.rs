//! Options of a client, as they are chosen.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

#[cfg(feature = "testing")]
use crate::clock::Clock;
use crate::config::Settings;
use crate::environment;
use crate::error::Result;
#[cfg(feature = "tls")]
use crate::node::TlsOptions;
use crate::node::credentials::{Credentials, OnThread};
use crate::node::{ConnectionInfo, taken_over};

/// Options of a client; [`Builder::build`] checks them.
///
/// ```
/// # fn main() -> redlock::Result<()> {
/// use redlock::Redlock;
/// use std::time::Duration;
/// let client = Redlock::builder(["memory://a", "memory://b", "memory://c"])
///     .key_prefix("app:")
///     .node_timeout(Duration::from_millis(200))
///     .connect_timeout(Duration::from_secs(10))
///     .restart_guard(Duration::from_secs(30))
///     .client_name("billing")
///     .min_replicas(0)
///     .fsync(false)
///     .scripts(true)
///     .build()?;
/// assert_eq!(client.lock("job").key(), "app:job");
/// # Ok(()) }
/// ```
#[must_use = "build makes the client"]
pub struct Builder(pub(crate) Settings);

impl Builder {
    /// Options of a client over the nodes that the environment names: [`Redlock::from_env`](crate::Redlock::from_env)
    /// says where.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let client = redlock::Builder::from_env()?.key_prefix("app:").build()?;
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn from_env() -> Result<Self> {
        Ok(Self(Settings::of(environment::nodes()?)))
    }

    /// Options of a client over the servers that the `redis` crate's clients are for:
    /// [`Redlock::from_connection_info`](crate::Redlock::from_connection_info) says what is taken over.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let theirs = redis::Client::open("redis://:s3cret@10.0.0.7:6380/1")?;
    /// let client = redlock::Builder::from_connection_info([theirs.get_connection_info()])?
    ///     .key_prefix("app:")
    ///     .build()?;
    /// assert_eq!(client.nodes(), ["redis://10.0.0.7:6380/1"]);
    /// # Ok(()) }
    /// ```
    pub fn from_connection_info<'a>(
        servers: impl IntoIterator<Item = &'a ConnectionInfo>,
    ) -> Result<Self> {
        let taken = servers.into_iter().map(taken_over).collect::<Result<Vec<_>>>()?;
        let unseen = taken.iter().enumerate().filter(|(_, node)| node.unseen).map(|(at, _)| at);
        let unseen = unseen.collect();
        let nodes = taken.into_iter().map(|node| node.url).collect();
        Ok(Self(Settings { unseen, ..Settings::of(nodes) }))
    }

    /// Goes before every name; default `lock:`. An empty one shares keys with other libraries.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.0.key_prefix = Some(prefix.into());
        self
    }

    /// How long to wait for one node's answer; default min(1 s, ttl / 5).
    ///
    /// Above zero and below any ttl; a lock may have its own. A late answer costs that vote, not the
    /// connection.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.0.node_timeout = Some(timeout);
        self
    }

    /// How long an attempt to connect may take, from the name lookup to the end of the login; default 5 s. Above zero.
    ///
    /// Calls that make one attempt (`try_acquire`, a `wait` of zero, `inspect`, `attach`, `force_release`) wait this long
    /// for connections that are not open yet, and then `node_timeout` for the replies.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.0.connect_timeout = Some(timeout);
        self
    }

    /// Over several nodes, one younger than this takes no first vote, and no ttl may exceed it. The same on every
    /// client; default 60 s. Zero turns it off: then a node that restarts without its data may vote for a second
    /// holder.
    ///
    /// The default over one node is none: nobody else's memory could correct what it forgot.
    pub fn restart_guard(mut self, guard: Duration) -> Self {
        self.0.restart_guard = Some(guard);
        self
    }

    /// So many replicas of a node must have a grant or an extension before it counts (`WAIT`); default 0: the server's
    /// own word is enough. With fewer, that node is a fault.
    ///
    /// A primary that is cut off from its replicas renews nobody's lease then. [`Builder::build`] refuses it for
    /// `memory://`.
    pub fn min_replicas(mut self, replicas: u32) -> Self {
        self.0.durability.min_replicas = replicas;
        self
    }

    /// A grant or an extension must be on the server's disk before it counts, and on those of `min_replicas` replicas
    /// (`WAITAOF`); default off. It survives the node's crash then.
    ///
    /// Redis 7.2 or Valkey, with `appendonly yes`. With `appendfsync everysec` each vote may take a second.
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.0.durability.fsync = fsync;
        self
    }

    /// Whether locks are asked for by scripts; default: but for releases where the server has `DELIFEQ` (Valkey 9), which
    /// costs it less.
    ///
    /// `false` is for users who may not run `EVALSHA`. It needs `DELIFEQ`, or `DELEX` (Redis 8.4): a server without is an
    /// `Unsupported` at the first connect. A lock has one name then, and no fencing token.
    pub fn scripts(mut self, scripts: bool) -> Self {
        self.0.scripts = Some(scripts);
        self
    }

    /// Whom `rediss://` nodes must be and who we are to them; default: the system's trust, the URL's host.
    ///
    /// Given without a `rediss://` node it is an error, as it would secure nothing.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.0.tls = tls;
        self
    }

    /// What the connections are called in the server's `CLIENT LIST` and log; default `redlock`.
    ///
    /// 1 to 255 letters, digits and signs of ASCII, without spaces.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.0.client_name = Some(name.into());
        self
    }

    /// Who says as whom to log in: asked at each connect, and on the open connection before a lifetime ends. For tokens
    /// that expire.
    ///
    /// The future runs on a thread of its own, in a tokio runtime, and may block. It has 1.5 s where a connection waits
    /// for it; what takes longer serves the next attempt. What it fails with is not shown: it may hold the secret.
    /// [`Builder::build`] refuses it beside a user or a password in a URL.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// use redlock::{Credentials, Redlock};
    /// use std::time::Duration;
    /// let client = Redlock::builder(["rediss://cache.example.com"]).credentials(|| async {
    ///     let token = std::fs::read_to_string("/var/run/secrets/token")?;
    ///     Ok::<_, std::io::Error>(Credentials::new(token).user("app").lifetime(Duration::from_secs(900)))
    /// });
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn credentials<F, Fut, E>(mut self, ask: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + 'static,
        E: 'static,
    {
        self.0.credentials = Some(Arc::new(OnThread::new(ask)));
        self
    }

    /// The tokio runtime in which the client is used: its tasks then write and read by themselves what they wait for, and no
    /// other thread is woken for it. Default: the library's own thread does that for all.
    ///
    /// The runtime needs I/O (`enable_io` or `enable_all`, as `#[tokio::main]` has it): without, and once it has ended,
    /// [`Builder::build`] fails with `Invalid`. Tokio tells by a panic that there is none: it is caught, and its message printed.
    ///
    /// The client may be used anywhere else, too: what is asked in another runtime or by a thread that blocks, and all
    /// once the runtime has ended, goes as without this. Leases are renewed by the library's own thread in any case, however
    /// long the runtime is blocked. On systems other than Linux and Android this does nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// use redlock::Redlock;
    /// use tokio::runtime::Handle;
    /// let client = Redlock::builder(["redis://127.0.0.1:6379"]).runtime(Handle::current()).build()?;
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.0.runtime = Some(runtime);
        self
    }

    /// The clock of the client, for tests; default [`SystemClock`](crate::testing::SystemClock).
    ///
    /// It must keep counting while the machine is suspended, or leases count as held for too long. With the feature `testing`.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// use redlock::{Redlock, testing::SystemClock};
    /// let client = Redlock::builder(["memory://"]).clock(std::sync::Arc::new(SystemClock)).build()?;
    /// # let _ = client; Ok(()) }
    /// ```
    #[cfg(feature = "testing")]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.0.clock = Some(clock);
        self
    }

    /// Another clock, and the runtime whose tasks keep leases by it.
    #[cfg(feature = "testing")]
    pub(crate) fn hosted(self, clock: Arc<dyn Clock>, runtime: Option<Handle>) -> Self {
        let mut made = self.clock(clock);
        made.0.host.runtime = runtime;
        made
    }
}
