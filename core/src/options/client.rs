//! The options of a client: defaults and checks.
//!
//! [`crate::options::lock`] has the rules for single options, and [`crate::node`] those for URLs. This module has the
//! rules that involve several nodes, and the defaults that depend on their number.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::{Clock, SystemClock};
use crate::drivers::RuntimeDriver;
use crate::error::{Error, Result};
use crate::node::address_map::{AddressMap, AddressMapOption};
use crate::node::credentials::Ask;
use crate::node::{
    CLIENT_NAME_RULE, CONNECT_TIMEOUT, Durability, Given, LabelOption, SharedSettings, TlsOptions,
    is_client_name, several_slots, unseen,
};
use crate::options::Address;
use crate::options::lock::{Options, check_time, longest_vote};
use crate::telemetry::log;
use crate::text::spelled;

/// The default prefix before every name.
///
/// It distinguishes the keys of locks from data, and allows access rights for them.
pub(crate) const DEFAULT_PREFIX: &str = "lock:";
/// The default restart guard over several nodes. It is above any common TTL, because no TTL may exceed it.
///
/// It is also how long a restarted node grants no new lease, so it should not be longer than necessary.
const DEFAULT_GUARD: Duration = Duration::from_secs(60);

/// How long an acquire without a `wait` goes on by default while no quorum of nodes replies.
///
/// A failover or a restart usually takes less.
const UNAVAILABLE_AFTER: Duration = Duration::from_secs(10);

/// The checked options of a client.
pub(crate) struct Config {
    /// All nodes are distinct.
    pub(crate) nodes: Vec<Address>,
    pub(crate) key_prefix: String,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    /// How long an acquire without a `wait` goes on while no quorum of nodes replies. `None` is forever.
    pub(crate) unavailable_after: Option<Duration>,
    /// How long a restarted node grants no new lease, and the maximum TTL. Zero disables the guard.
    pub(crate) guard: Duration,
    /// The label of the locks that set none.
    pub(crate) label: Option<LabelOption>,
    /// What must happen to a grant before it counts.
    pub(crate) durability: Durability,
    /// The source of every deadline.
    pub(crate) clock: Arc<dyn Clock>,
    /// The driver of the runtime that the user chose.
    pub(crate) runtime: Option<Arc<RuntimeDriver>>,
}

/// The options of a client as they were chosen. `None` is the default.
#[derive(Default)]
pub struct Settings {
    pub(crate) nodes: Vec<String>,
    /// The indexes of nodes whose certificates belong to another client and cannot be read.
    pub(crate) unseen: Vec<usize>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) connect_timeout: Option<Duration>,
    /// How long an acquire without a `wait` goes on while no quorum of nodes replies. `Some(None)` is forever.
    pub(crate) unavailable_after: Option<Option<Duration>>,
    pub(crate) restart_guard: Option<Duration>,
    pub(crate) durability: Durability,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) runtime: Option<Handle>,
    pub(crate) tls: TlsOptions,
    pub(crate) client_name: Option<String>,
    pub(crate) label: Option<LabelOption>,
    pub(crate) credentials: Option<Arc<Ask>>,
    pub(crate) address_map: Option<AddressMapOption>,
}

impl Settings {
    pub(crate) fn for_nodes(nodes: Vec<String>) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Checks the options. Sends nothing.
    pub(crate) fn checked(self) -> Result<Config> {
        let nodes =
            self.nodes.iter().map(|node| Address::parse(node)).collect::<Result<Vec<_>>>()?;
        if nodes.is_empty() {
            return Err(Error::invalid("no nodes were given. A client needs at least one URL"));
        }
        self.check_times()?;
        if self.client_name.as_deref().is_some_and(|name| !is_client_name(name)) {
            let (option, rule) = (spelled("client_name"), CLIENT_NAME_RULE);
            return Err(Error::invalid(format!("{option} {rule}")));
        }
        self.label.as_ref().map_or(Ok(()), LabelOption::check)?;
        if let (Some(at), false) = (self.unseen.first(), self.tls.says_whom_to_trust()) {
            return Err(unseen(&nodes[*at].shown_url()));
        }
        // Checked before any file is read, because these checks are cheap.
        check_distinct(&nodes)?;
        check_durability(&nodes, self.durability)?;
        let node_timeout =
            one_time(&nodes, "node_timeout", self.node_timeout, Address::node_timeout)?;
        let connect_timeout =
            one_time(&nodes, "connect_timeout", self.connect_timeout, Address::connect_timeout)?
                .unwrap_or(CONNECT_TIMEOUT);
        let (name, source) = (self.client_name, self.credentials);
        let address_map = address_map(self.address_map, &nodes)?;
        let shared = SharedSettings::new(self.tls, name, source, connect_timeout, address_map);
        let nodes = with_shared(nodes, &shared)?;
        warn_of_even_number(&nodes);
        let clock = self.clock.unwrap_or_else(|| clock_of(&nodes));
        // A single node is a quorum. No other node could correct what it forgot.
        let guard = if nodes.len() > 1 { DEFAULT_GUARD } else { Duration::ZERO };
        Ok(Config {
            nodes,
            key_prefix: self.key_prefix.unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
            node_timeout,
            connect_timeout,
            unavailable_after: self.unavailable_after.unwrap_or(Some(UNAVAILABLE_AFTER)),
            guard: self.restart_guard.unwrap_or(guard),
            label: self.label,
            durability: self.durability,
            clock,
            // Last, because it starts a task.
            runtime: self.runtime.as_ref().map(RuntimeDriver::for_chosen).transpose()?,
        })
    }

    fn check_times(&self) -> Result<()> {
        let above_zero = [
            ("node_timeout", self.node_timeout, ""),
            ("connect_timeout", self.connect_timeout, ""),
            (
                "unavailable_after",
                self.unavailable_after.flatten(),
                ". To try once, use a wait of 0",
            ),
        ];
        for (name, time, advice) in above_zero {
            let Some(time) = time else { continue };
            if time.is_zero() {
                let name = spelled(name);
                return Err(Error::invalid(format!("{name} must be above 0 (got 0){advice}")));
            }
            check_time(name, time)?;
        }
        self.restart_guard.map_or(Ok(()), |guard| check_time("restart_guard", guard))
    }
}

/// The system clock, or the clock of the only node if that is a memory node.
fn clock_of(nodes: &[Address]) -> Arc<dyn Clock> {
    match nodes {
        [Address::Memory(memory)] => memory.clock(),
        _ => Arc::new(SystemClock),
    }
}

impl Config {
    /// The timeout of one vote for calls without a lock.
    ///
    /// Such calls have no TTL. The default of a lock is smaller for a short TTL.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.node_timeout.unwrap_or(longest_vote(self.durability.fsync))
    }

    /// Sets the options that the lock does not override.
    pub(crate) fn complete(&self, options: &mut Options) {
        options.node_timeout = options.node_timeout.or(self.node_timeout);
        let label = self.label.clone();
        // A leader has a name, and an outage does not end its campaign.
        let (label, unavailable_after) = if options.is_leader() {
            (label.filter(|label| *label != LabelOption::Off).or(Some(LabelOption::Host)), None)
        } else {
            (label, self.unavailable_after)
        };
        options.label = options.label.take().or(label);
        options.fsync = self.durability.fsync;
        options.unavailable_after = unavailable_after;
    }

    pub(crate) fn is_clustered(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node, Address::Cluster(_)))
    }

    /// Checks whether the keys may be in one lock.
    pub(crate) fn check_together(&self, keys: &[String]) -> Result<()> {
        let rule = self.is_clustered().then(|| several_slots(keys)).flatten();
        rule.map_or(Ok(()), |rule| Err(Error::invalid(rule).about(&keys.join(", "))))
    }

    pub(crate) fn key(&self, name: &str) -> String {
        [&*self.key_prefix, name].concat()
    }
}

/// Checks the map of announced addresses. Without a node whose servers announce any, it would have no effect.
fn address_map(given: Option<AddressMapOption>, nodes: &[Address]) -> Result<Option<AddressMap>> {
    if given.is_some() && !nodes.iter().any(Address::is_announced) {
        return Err(Error::invalid(format!(
            "{} is set, but only servers of redis+sentinel:// and redis+cluster:// nodes announce addresses. Remove it, \
             or write the address that this client uses into the URL",
            spelled("address_map")
        )));
    }
    given.map(AddressMap::new).transpose()
}

/// Logs that an even number of nodes is no safer than one node less. A quorum is more than half of the nodes.
fn warn_of_even_number(nodes: &[Address]) {
    let count = nodes.len();
    if count.is_multiple_of(2) {
        let urls = nodes.iter().map(Address::shown_url).collect::<Vec<_>>().join(" ");
        log::event!(
            Warn, Client, { nodes: urls },
            "{count} nodes survive no more failures than {fewer}, because a quorum is more than half of them. Use an \
             odd number of nodes",
            count = count, fewer = count - 1
        );
    }
}

/// Rejects a node that is given twice. Two names of one server are detected at connect.
fn check_distinct(nodes: &[Address]) -> Result<()> {
    let mut seen = HashSet::new();
    match nodes.iter().find(|node| !seen.insert(node.identity())) {
        None => Ok(()),
        Some(twice) => {
            let url = twice.shown_url();
            let text = format!(
                "node {url} is given twice. A quorum needs independent nodes, so list each node once"
            );
            Err(Error::invalid(text))
        }
    }
}

/// No deployment has more replicas of one primary, so a larger number is a mistake.
const MOST_REPLICAS: u32 = 100;

/// Checks that the nodes support the durability options.
fn check_durability(nodes: &[Address], durability: Durability) -> Result<()> {
    let min_replicas = durability.min_replicas;
    if min_replicas > MOST_REPLICAS {
        let (option, most) = (spelled("min_replicas"), MOST_REPLICAS);
        let text = format!("{option} must be at most {most} (got {min_replicas})");
        return Err(Error::invalid(text));
    }
    let memory = nodes.iter().find(|node| matches!(node, Address::Memory(_)));
    let Some(memory) = memory.filter(|_| !durability.is_none()) else { return Ok(()) };
    let (option, lacks) =
        if min_replicas > 0 { ("min_replicas", "replicas") } else { ("fsync", "disk") };
    let (option, url) = (spelled(option), memory.shown_url());
    Err(Error::invalid(format!(
        "{option} is set, but {url} has no {lacks}. Remove the option, or use Redis servers"
    )))
}

/// The value of a time option, which may come from the option `name` or from the URLs. It must be the same for all
/// nodes.
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
                "the parameter {} of node {} differs from {} or from the parameter of another node. It applies to all \
                 nodes, so set it once",
                given.by,
                node.shown_url(),
                spelled(name)
            )));
        }
        chosen = Some(given.value);
    }
    Ok(chosen)
}

/// Adds the shared settings to the nodes. Certificate files are only read if a node uses TLS.
fn with_shared(nodes: Vec<Address>, shared: &SharedSettings) -> Result<Vec<Address>> {
    if !nodes.iter().any(Address::is_tls) {
        shared.options.check_unused()?;
    }
    let nodes = nodes.into_iter().map(|node| node.with(shared)).collect::<Result<Vec<_>>>()?;
    if shared.unverified() {
        let urls = nodes.iter().map(Address::shown_url).collect::<Vec<_>>().join(" ");
        log::event!(
            Warn, Client, { nodes: urls },
            "{option} is off, so the server's certificate is not verified. An attacker could read everything that is \
             sent to it, including passwords",
            option = spelled("tls_verify")
        );
    }
    Ok(nodes)
}
