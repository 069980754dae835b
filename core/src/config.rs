//! A client's options: defaults and checks.
//!
//! What an option may be stands in [`crate::options`], what a URL may be in [`crate::node`]. Here they meet:
//! rules about several nodes together, and defaults that depend on how many there are.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::background::Host;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::foreground::OnRuntime;
use crate::log;
use crate::node::credentials::Ask;
use crate::node::{
    Address, CONNECT_TIMEOUT, Durability, Given, Shared, TlsOptions, client_name, several_slots,
    unseen,
};
use crate::options::{Options, check_time, longest_vote};
use crate::spelling::spelled;

/// Goes before every name where nothing else is said.
///
/// Keys of locks can be told from data by it, and rights given by it.
pub(crate) const DEFAULT_PREFIX: &str = "lock:";
/// Above any ttl that is usual: over several nodes none may be longer.
/// It is also how long a restarted node is kept out, so it should be no longer than it must.
const DEFAULT_GUARD: Duration = Duration::from_secs(60);

/// A client's options, checked.
pub(crate) struct Config {
    /// No two of them the same place.
    pub(crate) nodes: Vec<Address>,
    /// Goes before every name.
    pub(crate) key_prefix: String,
    /// The deadline of one vote, where one was chosen.
    pub(crate) node_timeout: Option<Duration>,
    /// How long an attempt to connect may take.
    pub(crate) connect_timeout: Duration,
    /// A node younger than this takes no first vote; zero: there is no guard.
    /// The same number bounds every ttl.
    pub(crate) guard: Duration,
    /// What must have become of a grant before it counts.
    pub(crate) durability: Durability,
    /// Whether locks are asked for by scripts; `None`: but for what a server does cheaper without.
    pub(crate) scripts: Option<bool>,
    /// Every deadline comes from here.
    pub(crate) clock: Arc<dyn Clock>,
    /// Where leases are kept.
    pub(crate) host: Host,
    /// The runtime whose tasks read by themselves what they wait for.
    pub(crate) runtime: Option<Arc<OnRuntime>>,
}

/// A client's options as they were chosen; `None`: the default.
#[derive(Default)]
pub struct Settings {
    /// One URL each.
    pub(crate) nodes: Vec<String>,
    /// Those of them, by their places, whose certificates another client has and shows to nobody.
    pub(crate) unseen: Vec<usize>,
    /// Goes before every name.
    pub(crate) key_prefix: Option<String>,
    /// The deadline of one vote.
    pub(crate) node_timeout: Option<Duration>,
    /// How long an attempt to connect may take.
    pub(crate) connect_timeout: Option<Duration>,
    /// Over several nodes, one younger than this takes no first vote.
    pub(crate) restart_guard: Option<Duration>,
    /// What must have become of a grant before it counts.
    pub(crate) durability: Durability,
    /// Whether locks are asked for by scripts.
    pub(crate) scripts: Option<bool>,
    /// Another clock than the machine's.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Where leases are kept, if not on the background thread.
    pub(crate) host: Host,
    /// The runtime whose tasks read by themselves what they wait for.
    pub(crate) runtime: Option<tokio::runtime::Handle>,
    /// Whom `rediss://` nodes must be, and who we are to them.
    pub(crate) tls: TlsOptions,
    /// How the connections are called.
    pub(crate) client_name: Option<String>,
    /// Who says as whom to log in.
    pub(crate) credentials: Option<Arc<dyn Ask>>,
}

impl Settings {
    /// All by default.
    pub(crate) fn of(nodes: Vec<String>) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// The options, or the rule that one broke. Nothing is sent.
    pub(crate) fn checked(self) -> Result<Config> {
        let nodes =
            self.nodes.iter().map(|node| Address::parse(node)).collect::<Result<Vec<_>>>()?;
        if nodes.is_empty() {
            return Err(Error::invalid("no nodes were given: a client needs at least one URL"));
        }
        self.check_times()?;
        if self.client_name.as_deref().is_some_and(|name| !client_name::fits(name)) {
            let (option, rule) = (spelled("client_name"), client_name::RULE);
            return Err(Error::invalid(format!("{option} {rule}")));
        }
        if let (Some(at), false) = (self.unseen.first(), self.tls.says_whom_to_trust()) {
            return Err(unseen(&nodes[*at].redacted()));
        }
        // Before any file is read: the rules cost nothing.
        check_distinct(&nodes)?;
        check_durability(&nodes, self.durability)?;
        let node_timeout =
            one_time(&nodes, "node_timeout", self.node_timeout, Address::node_timeout)?;
        let connect_timeout =
            one_time(&nodes, "connect_timeout", self.connect_timeout, Address::connect_timeout)?
                .unwrap_or(CONNECT_TIMEOUT);
        let (name, source) = (self.client_name, self.credentials);
        let shared = Shared::new(self.tls, name, source, connect_timeout);
        let nodes = with_shared(nodes, &shared)?;
        let clock = self.clock.unwrap_or_else(|| clock_of(&nodes));
        // One node is a quorum by itself, which no other node's memory could correct.
        let guard = if nodes.len() > 1 { DEFAULT_GUARD } else { Duration::ZERO };
        Ok(Config {
            nodes,
            key_prefix: self.key_prefix.unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
            node_timeout,
            connect_timeout,
            guard: self.restart_guard.unwrap_or(guard),
            durability: self.durability,
            scripts: self.scripts,
            clock,
            host: self.host,
            // Behind all that may be wrong: it starts a task.
            runtime: self.runtime.as_ref().map(OnRuntime::start).transpose()?.flatten(),
        })
    }

    /// Whether each time is within its limits.
    fn check_times(&self) -> Result<()> {
        if self.node_timeout.is_some_and(|timeout| timeout.is_zero()) {
            let option = spelled("node_timeout");
            return Err(Error::invalid(format!("{option} is 0: every node needs time to answer")));
        }
        if self.connect_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Error::invalid(format!("{} must be above 0", spelled("connect_timeout"))));
        }
        let times = [
            ("node_timeout", self.node_timeout),
            ("connect_timeout", self.connect_timeout),
            ("restart_guard", self.restart_guard),
        ];
        for (name, time) in times {
            time.map_or(Ok(()), |time| check_time(name, time))?;
        }
        Ok(())
    }
}

/// The machine's, unless no server has a part in it.
fn clock_of(nodes: &[Address]) -> Arc<dyn Clock> {
    match nodes {
        [Address::Memory(memory)] => memory.clock(),
        _ => Arc::new(SystemClock),
    }
}

impl Config {
    /// The deadline of one vote where no lock says otherwise.
    ///
    /// Only for what has no ttl to go by: a lock's own default is min(1 s, ttl / 5).
    pub(crate) fn node_timeout(&self) -> Duration {
        self.node_timeout.unwrap_or(longest_vote(self.durability.fsync))
    }

    /// Gives a lock the client's options where it has none of its own.
    pub(crate) fn complete(&self, options: &mut Options) {
        options.node_timeout = options.node_timeout.or(self.node_timeout);
        options.fsync = self.durability.fsync;
    }

    /// What keys of one lock can be had together, and how.
    pub(crate) fn check_together(&self, keys: &[String], fencing: bool) -> Result<()> {
        let clustered = self.nodes.iter().any(|node| matches!(node, Address::Cluster(_)));
        let rule = clustered.then(|| several_slots(keys)).flatten();
        let rule = rule.or_else(|| {
            // What takes several commands at once is done by a script, or not at all.
            let why = if fencing {
                "fencing needs a script, which counts and stores the token in one step: turn scripts on for this \
                 client, or fencing off"
            } else if keys.len() > 1 {
                "several names in one lock need a script, which takes all of them or none: turn scripts on for this \
                 client, or lock one name"
            } else {
                return None;
            };
            (self.scripts == Some(false)).then(|| format!("scripts is off, and {why}"))
        });
        rule.map_or(Ok(()), |rule| Err(Error::invalid(rule).about(&keys.join(", "))))
    }

    /// The Redis key of a name.
    pub(crate) fn key(&self, name: &str) -> String {
        [&*self.key_prefix, name].concat()
    }
}

/// One place given twice is an error; two names for one server are found at connect.
fn check_distinct(nodes: &[Address]) -> Result<()> {
    let mut seen = HashSet::new();
    match nodes.iter().find(|node| !seen.insert(node.identity())) {
        None => Ok(()),
        Some(twice) => {
            let url = twice.redacted();
            let text = format!("node {url} is given twice: a quorum needs independent nodes");
            Err(Error::invalid(text))
        }
    }
}

/// No set-up has more replicas of one primary; beyond it a number is a mistake.
const MOST_REPLICAS: u32 = 100;

/// What can be had of these nodes at all.
fn check_durability(nodes: &[Address], durability: Durability) -> Result<()> {
    let min_replicas = durability.min_replicas;
    if min_replicas > MOST_REPLICAS {
        let (option, most) = (spelled("min_replicas"), MOST_REPLICAS);
        let text = format!("{option} is {min_replicas}: it must be at most {most}");
        return Err(Error::invalid(text));
    }
    let memory = nodes.iter().find(|node| matches!(node, Address::Memory(_)));
    let Some(memory) = memory.filter(|_| !durability.is_none()) else { return Ok(()) };
    let (option, lacks) =
        if min_replicas > 0 { ("min_replicas", "replicas") } else { ("fsync", "disk") };
    let (option, url) = (spelled(option), memory.redacted());
    Err(Error::invalid(format!(
        "{option} is given, and {url} has no {lacks}: leave it out, or use Redis servers"
    )))
}

/// A time of the option `name` or of the nodes' URLs: it is one for all nodes.
fn one_time(
    nodes: &[Address],
    name: &str,
    option: Option<Duration>,
    of: fn(&Address) -> Option<&Given<Duration>>,
) -> Result<Option<Duration>> {
    let mut chosen = option;
    for node in nodes {
        let Some(given) = of(node) else { continue };
        if chosen.is_some_and(|chosen| chosen != given.value) {
            return Err(Error::invalid(format!(
                "the parameter {} of node {} says something else than {}, or than another node's: it is one for \
                 all nodes; give it once",
                given.by,
                node.redacted(),
                spelled(name)
            )));
        }
        chosen = Some(given.value);
    }
    Ok(chosen)
}

/// Files are read only where a node is reached by TLS.
fn with_shared(nodes: Vec<Address>, shared: &Shared) -> Result<Vec<Address>> {
    if !nodes.iter().any(Address::is_tls) {
        shared.options.check_unused()?;
    }
    let nodes = nodes.into_iter().map(|node| node.with(shared)).collect::<Result<Vec<_>>>()?;
    if shared.unverified() {
        let urls = nodes.iter().map(Address::redacted).collect::<Vec<_>>().join(" ");
        log::event!(
            Warn, Client, { nodes: urls },
            "{option} is off: whoever answers is taken for the server, and hears what is said to it, passwords too",
            option = spelled("tls_verify")
        );
    }
    Ok(nodes)
}
