//! A client's options: defaults, checks, and where the default client's nodes come from.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Redlock;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::node::{Address, Tls, TlsOptions};
use crate::options::check_time;
use crate::spelling::spelled;

const DEFAULT_PREFIX: &str = "lock:";
const DEFAULT_GUARD: Duration = Duration::from_secs(60);

/// A client's options, checked.
pub(crate) struct Config {
    pub(crate) nodes: Vec<Address>,
    pub(crate) key_prefix: String,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) guard: Duration,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Options of a client; [`Builder::build`] checks them.
pub struct Builder {
    nodes: Vec<String>,
    key_prefix: String,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) restart_guard: Option<Duration>,
    clock: Arc<dyn Clock>,
    pub(crate) tls: TlsOptions,
}

impl Builder {
    pub(crate) fn new(nodes: Vec<String>) -> Self {
        Self {
            nodes,
            key_prefix: DEFAULT_PREFIX.to_owned(),
            node_timeout: None,
            restart_guard: None,
            clock: Arc::new(SystemClock),
            tls: TlsOptions::default(),
        }
    }

    /// Goes before every name; default `lock:`. An empty one shares keys with other libraries.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// How long to wait for one node's answer; default min(1 s, ttl / 5).
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// Over several nodes, one younger than this takes no first vote, and no ttl may exceed it. The same on every
    /// client; default 60 s. Zero turns it off: then a node that restarts without its data may vote for a second holder.
    #[must_use]
    pub fn restart_guard(mut self, guard: Duration) -> Self {
        self.restart_guard = Some(guard);
        self
    }

    /// Whom `rediss://` nodes must be and who we are to them; default: the system's trust, the URL's host.
    #[must_use]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// Another clock, for tests; default [`SystemClock`].
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The client, or the rule that an option broke. Nothing is sent.
    pub fn build(self) -> Result<Redlock> {
        let nodes =
            self.nodes.iter().map(|node| Address::parse(node)).collect::<Result<Vec<_>>>()?;
        if nodes.is_empty() {
            return Err(Error::invalid("no nodes were given: a client needs at least one URL"));
        }
        if self.node_timeout.is_some_and(|timeout| timeout.is_zero()) {
            let option = spelled("node_timeout");
            return Err(Error::invalid(format!("{option} is 0: every node needs time to answer")));
        }
        let times = [("node_timeout", self.node_timeout), ("restart_guard", self.restart_guard)];
        for (name, time) in times {
            time.map_or(Ok(()), |time| check_time(name, time))?;
        }
        let mut seen = HashSet::new();
        if let Some(twice) = nodes.iter().find(|node| !seen.insert(node.identity())) {
            let url = twice.redacted();
            let text = format!("node {url} is given twice: a quorum needs independent nodes");
            return Err(Error::invalid(text));
        }
        let nodes = if nodes.iter().any(Address::is_tls) {
            let tls = Tls::load(&self.tls)?;
            nodes.into_iter().map(|node| node.with_tls(&tls)).collect()
        } else {
            self.tls.check_unused()?;
            nodes
        };
        let guard = match self.restart_guard {
            Some(guard) => guard,
            None if nodes.len() > 1 => DEFAULT_GUARD,
            None => Duration::ZERO,
        };
        let config = Config {
            nodes,
            key_prefix: self.key_prefix,
            node_timeout: self.node_timeout,
            guard,
            clock: self.clock,
        };
        Ok(Redlock::new(config))
    }
}

/// The default client's nodes: `REDLOCK_NODES` (URLs separated by white space, or by commas followed by a scheme),
/// else `REDIS_URL`, else the local server.
pub fn default_nodes(
    redlock_nodes: Option<String>,
    redis_url: Option<String>,
) -> Result<Vec<String>> {
    let given = redlock_nodes.filter(|nodes| !nodes.trim().is_empty());
    let Some(given) = given else {
        let url = redis_url.filter(|url| !url.trim().is_empty());
        return Ok(vec![url.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())]);
    };
    let mut nodes: Vec<String> = Vec::new();
    for part in given.split_whitespace().flat_map(|word| word.split(',')) {
        match nodes.last_mut() {
            // A comma that no scheme follows belongs to the URL before it.
            Some(last) if !part.contains("://") && !part.is_empty() => {
                last.push(',');
                last.push_str(part);
            }
            _ if part.is_empty() => {}
            _ => nodes.push(part.to_owned()),
        }
    }
    Ok(nodes)
}
