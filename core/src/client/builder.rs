//! The builder for the options of a client, and the nodes that environment variables name.

use std::env::{self, VarError};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

#[cfg(feature = "testing")]
use crate::clock::Clock;
use crate::error::{Error, Result};
#[cfg(feature = "tls")]
use crate::node::TlsOptions;
use crate::node::address_map::{self, AddressMapOption};
use crate::node::credentials::{Credentials, on_thread};
use crate::node::{ConnectionInfo, LabelOption, taken_over};
use crate::options::Address;
use crate::options::client::Settings;
use crate::telemetry::log;

/// Builds a client. [`Builder::build`] checks the options.
///
/// ```
/// # fn main() -> redlock::Result<()> {
/// use redlock::Redlock;
/// use std::time::Duration;
/// let client = Redlock::builder(["memory://a", "memory://b", "memory://c"])
///     .key_prefix("app:")
///     .node_timeout(Duration::from_millis(200))
///     .connect_timeout(Duration::from_secs(10))
///     .unavailable_after(Duration::from_secs(30))
///     .restart_guard(Duration::from_secs(30))
///     .client_name("billing")
///     .min_replicas(0)
///     .fsync(false)
///     .build()?;
/// assert_eq!(client.lock("job").key(), "app:job");
/// # Ok(()) }
/// ```
#[must_use = "build creates the client"]
pub struct Builder(pub(crate) Settings);

impl Builder {
    /// Starts with the nodes that the environment names. See [`Redlock::from_env`](crate::Redlock::from_env).
    ///
    /// # Errors
    ///
    /// `Invalid` if a URL in the environment breaks a rule.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let client = redlock::Builder::from_env()?.key_prefix("app:").build()?;
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn from_env() -> Result<Self> {
        Ok(Self(Settings::for_nodes(nodes()?)))
    }

    /// Starts with the servers of existing `redis` crate clients. See
    /// [`Redlock::from_connection_info`](crate::Redlock::from_connection_info) for what is taken over.
    ///
    /// # Errors
    ///
    /// `Invalid` if a setting has no counterpart in this library.
    ///
    /// # Examples
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
    #[cfg(feature = "redis")]
    pub fn from_connection_info<'a>(
        servers: impl IntoIterator<Item = &'a ConnectionInfo>,
    ) -> Result<Self> {
        let taken = servers.into_iter().map(taken_over).collect::<Result<Vec<_>>>()?;
        let unseen = taken.iter().enumerate().filter(|(_, (_, unseen))| *unseen).map(|(at, _)| at);
        let unseen = unseen.collect();
        let nodes = taken.into_iter().map(|(url, _)| url).collect();
        Ok(Self(Settings { unseen, ..Settings::for_nodes(nodes) }))
    }

    /// The prefix before every name. Default `lock:`. An empty prefix shares keys with other libraries.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.0.key_prefix = Some(prefix.into());
        self
    }

    /// How long to wait for the reply of one node. Default min(1 s, ttl / 5), with `fsync` min(3 s, ttl / 3).
    ///
    /// Must be above zero and below every `ttl`. A lock can override it. A late reply loses that vote, but the
    /// connection stays open.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.0.node_timeout = Some(timeout);
        self
    }

    /// How long one attempt to connect may take: name lookup, TCP, TLS and login. Default 5 s. Must be above zero.
    ///
    /// Some calls make only one attempt: `try_acquire`, a `wait` of zero, `inspect`, `attach` and `force_release`. They
    /// wait this long for connections that are not open yet, and then `node_timeout` for the replies.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.0.connect_timeout = Some(timeout);
        self
    }

    /// How long an acquire without a `wait` goes on while no quorum of nodes replies. Default 10 s. Must be above zero.
    ///
    /// The acquire then fails with `Unavailable`. The time counts from the first round without a quorum, and again from
    /// zero once a quorum has replied. While another owner holds the lock, an acquire without a `wait` waits forever.
    /// `None` also retries failed nodes forever. An acquire with a `wait` is not affected.
    pub fn unavailable_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.0.unavailable_after = Some(time.into());
        self
    }

    /// How long a restarted node grants no new lease. No `ttl` may exceed it. Must be the same on every client.
    ///
    /// Default 60 s over several nodes. With zero, a node that restarts without its data may vote for a second holder.
    /// The default over one node is zero, because no other node could correct what it forgot.
    pub fn restart_guard(mut self, guard: Duration) -> Self {
        self.0.restart_guard = Some(guard);
        self
    }

    /// Number of replicas of a node that must have a grant or an extension before it counts (`WAIT`). Default 0, at
    /// most 100.
    ///
    /// With fewer replicas the node counts as failed. A primary that is cut off from its replicas therefore renews no
    /// lease. [`Builder::build`] rejects this option for `memory://` nodes.
    pub fn min_replicas(mut self, replicas: u32) -> Self {
        self.0.durability.min_replicas = replicas;
        self
    }

    /// Whether a grant or an extension must be on disk before it counts (`WAITAOF`). Default off.
    ///
    /// It then survives a crash of the node. The disks are those of the node and of `min_replicas` replicas. Requires
    /// Redis 7.2 or Valkey, with `appendonly yes`. With `appendfsync everysec`, each vote may take two seconds.
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.0.durability.fsync = fsync;
        self
    }

    /// The certificates to trust and to present for `rediss://` nodes. Default: the system's trust store and the URL's
    /// host.
    ///
    /// [`Builder::build`] rejects it without a `rediss://` node, because it would have no effect.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.0.tls = tls;
        self
    }

    /// The name of the connections in the server's `CLIENT LIST` and log. Default `redlock`.
    ///
    /// 1 to 255 ASCII letters, digits and punctuation characters, without spaces.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.0.client_name = Some(name.into());
        self
    }

    /// The label of the locks that set none with [`Lock::label`](crate::Lock::label). Default none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let client = redlock::Redlock::builder(["memory://"]).label("web-3").build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert!(lease.token().ends_with(":web-3"));
    /// # Ok(()) }
    /// ```
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.0.label = Some(LabelOption::Text(label.into().into()));
        self
    }

    /// [`Builder::label`] with the host and the process as the label, such as `web-3-4711`.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let client = redlock::Redlock::builder(["memory://"]).label_host().build()?;
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn label_host(mut self) -> Self {
        self.0.label = Some(LabelOption::Host);
        self
    }

    /// Callback that supplies the username and password, for example for tokens that expire.
    ///
    /// It is called at each connect, and before a lifetime ends while a connection is open. The future runs on a
    /// separate thread in a tokio runtime, and may block. A connection waits up to 1.5 s for it, and the next attempt
    /// uses a later result. While it hangs, it is not called again. Its error is not shown, because it may contain the
    /// secret. [`Builder::build`] rejects this option together with a username or password in a URL.
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
        self.0.credentials = Some(on_thread(ask));
        self
    }

    /// Where this client reaches a server that announces another address, for example through NAT, a tunnel or a
    /// published port of a container.
    ///
    /// The function gets a host and a port as sentinels or the servers of a cluster announce them, and returns those to
    /// connect to. Addresses in URLs stay as they are. It runs on a separate thread at each connect, and may block. A
    /// connection waits up to 1.5 s for it, and the next attempt uses a later result. With TLS, the certificate must
    /// contain the host that it returns, or [`TlsOptions::server_name`]. A connect fails if it panics, or returns an
    /// invalid host or the port 0. [`Builder::build`] rejects it without a `redis+sentinel://` or `redis+cluster://`
    /// node.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// use redlock::Redlock;
    /// let client = Redlock::builder(["redis+cluster://127.0.0.1:7001"])
    ///     .address_map(|host, port| match (host, port) {
    ///         ("10.0.0.1", 6379) => ("127.0.0.1".into(), 7001),
    ///         ("10.0.0.2", 6379) => ("127.0.0.1".into(), 7002),
    ///         _ => (host.into(), port),
    ///     })
    ///     .build()?;
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn address_map<F>(mut self, map: F) -> Self
    where
        F: Fn(&str, u16) -> (String, u16) + Send + Sync + 'static,
    {
        self.0.address_map = Some(AddressMapOption::Function(address_map::on_thread(map)));
        self
    }

    /// The tokio runtime whose tasks read and write directly, without waking another thread.
    ///
    /// By default, this is the first runtime in which a task uses the client, and the next one after that has ended. A
    /// program that is compiled with `panic = "abort"` has no default and should set this option.
    ///
    /// The client may still be used elsewhere. The library's own thread reads and writes for all other callers, while
    /// the runtime is blocked, and after it has ended. It always renews the leases. On systems other than Linux and
    /// Android this option has no effect.
    ///
    /// [`Builder::build`] fails with `Invalid` if the runtime has ended or was built without I/O. `#[tokio::main]`,
    /// `enable_io` and `enable_all` provide I/O. Tokio reports missing I/O with a panic. The library catches it, but
    /// the message is printed.
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

    /// The clock of the client, for tests. Default [`SystemClock`](crate::testing::SystemClock). Requires the feature
    /// `testing`.
    ///
    /// It must keep counting while the machine is suspended, or leases count as held for too long.
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
}

pub(crate) fn nodes() -> Result<Vec<String>> {
    named(variable("REDLOCK_NODES")?, variable("REDIS_URL")?, "from_env()")
}

fn variable(name: &str) -> Result<Option<String>> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        // The value is not shown, because it may contain a password.
        Err(VarError::NotUnicode(_)) => Err(Error::invalid(format!(
            "{name} is not valid UTF-8. It must contain the URLs of the nodes"
        ))),
    }
}

/// Returns the nodes of `REDLOCK_NODES`, otherwise that of `REDIS_URL`, otherwise the local server.
///
/// `REDLOCK_NODES` contains URLs separated by white space, or by commas that a scheme follows. The caller passes the
/// values, because another language may have its own view of the environment. An error names the variable of an invalid
/// URL, and a log message `who` uses the local server.
pub(crate) fn named(
    redlock_nodes: Option<String>,
    redis_url: Option<String>,
    who: &str,
) -> Result<Vec<String>> {
    // An empty variable counts as unset, because many tools unset variables this way.
    let given = redlock_nodes.filter(|nodes| !nodes.trim().is_empty());
    let Some(given) = given else {
        let url = redis_url.filter(|url| !url.trim().is_empty());
        return checked("REDIS_URL", vec![url.unwrap_or_else(|| local(who))]);
    };
    let mut nodes: Vec<String> = Vec::new();
    // Removes quotes around the whole value, which a shell would have removed.
    let given = given.trim().trim_matches(['"', '\'']);
    let words = given.split_whitespace().map(|word| word.trim_matches(','));
    for part in words.filter(|word| !word.is_empty()).flat_map(|word| word.split(',')) {
        match nodes.last_mut() {
            // A comma without a scheme after it belongs to the previous URL.
            Some(last) if !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => nodes.push(part.to_owned()),
        }
    }
    // Several commas between two URLs count as one.
    nodes.iter_mut().for_each(|node| node.truncate(node.trim_end_matches(',').len()));
    checked("REDLOCK_NODES", nodes)
}

fn checked(variable: &str, nodes: Vec<String>) -> Result<Vec<String>> {
    for node in &nodes {
        Address::parse(node).map_err(|error| {
            Error::invalid(format!("the environment variable {variable} is wrong: {error}"))
        })?;
    }
    Ok(nodes)
}

/// Returns the URL of the local server and warns once. In production this is a mistake: every machine would lock for
/// itself only.
fn local(who: &str) -> String {
    static SAID: AtomicBool = AtomicBool::new(false);
    const LOCAL: &str = "redis://127.0.0.1:6379";
    if !SAID.swap(true, Ordering::Relaxed) {
        log::event!(
            Warn,
            Client,
            {},
            "neither REDLOCK_NODES nor REDIS_URL is set: {who} uses {url}",
            who = who,
            url = LOCAL,
        );
    }
    LOCAL.to_owned()
}
