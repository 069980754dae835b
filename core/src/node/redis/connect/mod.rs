//! Opens a connection: one attempt, from the search for the server to a connection that is ready for locks.
//!
//! It finds the server, connects and logs in (`login`), and checks its kind and role, and the features that locks need
//! ([`handshake`]). Then it has the server close the previous connection, so that none of its late bytes follow the new
//! commands. [`super::node_task`] decides when to try.

pub(super) mod handshake;
pub(super) mod questions;

use std::sync::Arc;

use redis::{Value, cmd};

use super::io::step::Step;
use super::sentinel::{FoundPrimary, Resolver};
use crate::node::Fault;
use crate::node::redis::commands::capabilities::Capabilities;
use crate::node::redis::commands::errors::words;
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::redis::login::{BatchConnection, no_redis, refused};
use crate::node::redis::protocol::Target;
use handshake::{Greeting, ServerKind};

/// An open connection.
pub(crate) struct Opening {
    /// The result of the handshake.
    pub(crate) greeting: Greeting,
    /// Whether no command of the previous connection can arrive any more.
    pub(crate) killed: bool,
    /// The server that was found.
    pub(crate) found: FoundPrimary,
}

/// How an attempt finds out which commands the server supports. Some proxies close the connection at others.
#[derive(Clone, Copy)]
pub(crate) enum Discovery {
    /// Tries all commands, over several connections if the server closes them.
    Full,
    /// First tries only the commands that locks need, on a separate connection. If the server closes that too, there is
    /// no other one.
    IfAlive,
    /// Tries these, on one connection.
    Known(Capabilities),
}

/// The result of an attempt.
pub(super) type Opened = Result<Opening, Fault>;

/// Makes one attempt within `connect_timeout`, and reports its `step`.
pub(super) async fn open(
    target: Target,
    resolver: Arc<Resolver>,
    previous_connections: PreviousConnections,
    discovery: Discovery,
    step: Step,
) -> Opened {
    let mut server = None;
    let attempt = find_and_open(&target, &resolver, &previous_connections, discovery, &mut server);
    let opened = step.within(target.route.connect_timeout(), attempt).await;
    opened.map_err(|fault| {
        let fault = match server.and_then(|found: FoundPrimary| found.origin()) {
            Some(origin) if fault.is_unreached() => fault.hinting(&origin),
            _ => fault,
        };
        // The URL of a cluster does not tell which of its servers failed.
        match &target.cluster {
            Some(cluster) => fault.with_origin(&cluster.from.to_string()),
            None => fault,
        }
    })
}

/// Finds the `server`, connects, logs in, checks that no other node uses the same server, and closes the previous
/// connection.
async fn find_and_open(
    target: &Target,
    resolver: &Resolver,
    previous_connections: &PreviousConnections,
    discovery: Discovery,
    server: &mut Option<FoundPrimary>,
) -> Opened {
    let (found, mut news) = (resolver.find().await?, resolver.news());
    *server = Some(found.clone());
    let mut greeting = greet(target, &found, discovery).await?;
    // The primary may have changed during the handshake, and votes of the old one would not count.
    if news.has_moved(&found) {
        return Err(news.until_moved(&found).await);
    }
    let Target { url, route, run_ids, cluster, .. } = target;
    if let Some(run_id) = &greeting.run_id {
        // A standalone node has one server at a time, at any address.
        let address = cluster.as_ref().map_or_else(String::new, |cluster| cluster.from.to_string());
        let entered = run_ids.enter(url, &address, run_id);
        entered.map_err(|fault| route.redact_fault(fault))?;
    }
    // Done before any other command, because nothing of the previous connection may arrive after it.
    let killed = previous_connections.kill(&mut greeting).await?;
    Ok(Opening { greeting, killed, found })
}

/// Connects to the server that was found, and performs the handshake.
pub(super) async fn greet(
    target: &Target,
    found: &FoundPrimary,
    discovery: Discovery,
) -> Result<Greeting, Fault> {
    let (endpoint, primary) = (&found.endpoint, found.primary_for().is_some());
    let kind = match &target.cluster {
        Some(_) => ServerKind::ClusterMember,
        None if primary => ServerKind::Primary,
        None => ServerKind::Standalone,
    };
    let greeting = handshake::greet(endpoint, kind, target.guard, &target.needs, discovery).await;
    greeting.map_err(|fault| {
        let fault = target.route.redact_fault(fault);
        if primary { fault.with_origin(&endpoint.authority()) } else { fault }
    })
}

/// The maximum number of server runs. Bytes of even older connections have arrived or are lost.
const MAX_SERVERS: usize = 8;

/// A connection that broke. Its bytes may still arrive, unless the server closes it first.
#[derive(Clone)]
struct PreviousConnection {
    /// The run of the server. The connection ID is only valid there.
    run_id: Option<String>,
    id: Option<i64>,
}

/// The last connection to each run of a server, newest first. Their bytes may still be under way, and a node may
/// reconnect to an earlier server.
#[derive(Clone, Default)]
pub(crate) struct PreviousConnections(Vec<PreviousConnection>);

impl PreviousConnections {
    /// Records a new connection, which becomes the previous one when it ends.
    pub(crate) fn add(&mut self, greeting: &Greeting) {
        // Connections to a server without a run ID cannot be distinguished.
        self.0.retain(|previous| previous.run_id.is_some() && previous.run_id != greeting.run_id);
        self.0.truncate(MAX_SERVERS - 1);
        self.0.insert(0, PreviousConnection { run_id: greeting.run_id.clone(), id: greeting.id });
    }

    /// Makes the server close the previous connection. Returns true if no bytes of any previous connection can still
    /// arrive there.
    ///
    /// A reset does not guarantee that: its bytes may still be in the network, and only the server can discard them. If
    /// the server does not allow closing it, deletes are repeated for as long as a key can live.
    pub(crate) async fn kill(&self, greeting: &mut Greeting) -> Result<bool, Fault> {
        let unknown = self.0.iter().any(|previous| previous.run_id.is_none());
        if unknown || greeting.run_id.is_none() {
            return Ok(self.0.is_empty());
        }
        // Another run of the server does not know the connection, and its ID may be that of another client.
        let same = self.0.iter().find(|previous| previous.run_id == greeting.run_id);
        let Some(previous) = same else { return Ok(true) };
        // Without an ID, the server cannot close the connection.
        let Some(id) = previous.id else { return Ok(false) };
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id);
        let replies = greeting.connection.request(&[kill]).await?;
        // The reply is the number of closed connections. Zero means that the connection was already gone. An error
        // means that the user lacks the right.
        Ok(matches!(replies[..], [Value::Int(_)]))
    }
}

/// The role of a server that votes.
const MASTER: &str = "master";

/// Returns an error for a server with another role. It may accept writes nevertheless, as an active replica of some
/// servers does, and would vote in addition to its primary.
pub(super) fn is_master(role: &str) -> Result<(), Fault> {
    if role == MASTER {
        return Ok(());
    }
    let text = "the server is a replica (its role is ";
    Err(Fault::new(text).saying(role, "), which takes no votes"))
}

/// Returns an error unless the reply to `ROLE` is that of a primary.
pub(super) fn is_primary(role: &Value) -> Result<(), Fault> {
    match role {
        Value::Array(parts)
            if parts.first().is_some_and(|role| is_master(&words(role)).is_ok()) =>
        {
            Ok(())
        }
        Value::Array(parts) => {
            let role = parts.first().map(words).unwrap_or_default();
            let text = "the sentinels report it as the primary, but it is a replica (its role is ";
            Err(Fault::new(text).saying(&role, ")"))
        }
        Value::ServerError(error) => Err(refused(error)),
        other => Err(no_redis(other)),
    }
}

/// Returns an error if the server is of another kind than the URL says. Its `mode` is only what it calls itself, and
/// that of a proxy is the mode of the servers behind it. A server of a cluster reports the slots of the cluster, and
/// redirects commands. A `redis+cluster://` URL asks for the slots in any case.
pub(super) async fn check_kind(
    connection: &mut BatchConnection,
    mode: Option<&str>,
    endpoint: &Endpoint,
    clustered: bool,
) -> Result<(), Fault> {
    let (what, url) = match mode {
        Some("sentinel") => {
            ("a Redis Sentinel, which stores no locks", "+sentinel://host:port/service")
        }
        // It would refuse the other keys, now or after a migration.
        Some("cluster") if !clustered && has_slots(connection).await? => {
            ("a server of a Redis Cluster and has only some of the keys", "+cluster://host:port")
        }
        _ => return Ok(()),
    };
    let scheme = if endpoint.is_tls() { "rediss" } else { "redis" };
    Err(Fault::invalid(format!("it is {what}. Use {scheme}{url}")))
}

/// Whether the server reports the slots of a cluster, of which there may be none yet.
async fn has_slots(connection: &mut BatchConnection) -> Result<bool, Fault> {
    let slots = cmd("CLUSTER").arg("SLOTS").clone();
    let reply = connection.request(&[slots]).await?.remove(0);
    Ok(matches!(reply, Value::Array(_)))
}
