//! Opens a connection: one attempt, from the search for the server to a connection that is ready for locks.
//!
//! It finds the server, connects and logs in ([`login`]), and checks the features that locks need ([`handshake`],
//! [`rights`]). Then it has the server close the previous connection, so that none of its late bytes follow the new
//! commands. [`super::node_task`] decides when to try.

pub(super) mod handshake;
mod role;

use std::sync::Arc;

use redis::{Value, cmd};

use super::io::step::Step;
use super::sentinel::{Found, Resolver};
use crate::node::Fault;
use crate::node::redis::commands::capabilities::Capabilities;
use crate::node::redis::protocol::Target;
use handshake::Greeting;

/// An open connection.
pub(crate) struct Opening {
    /// The result of the handshake.
    pub(crate) greeting: Greeting,
    /// Whether no command of the previous connection can arrive any more.
    pub(crate) killed: bool,
    /// The server that was found.
    pub(crate) found: Found,
}

/// The result of an attempt.
pub(super) type Opened = Result<Opening, Fault>;

/// Makes one attempt within `connect_timeout`, and reports its `step`.
pub(super) async fn open(
    target: Target,
    resolver: Arc<Resolver>,
    (previous_connections, known, step): (PreviousConnections, Option<Capabilities>, Step),
) -> Opened {
    let mut server = None;
    let attempt = find_and_open(&target, &resolver, (&previous_connections, known), &mut server);
    let opened = step.within(target.route.connect_timeout(), attempt).await;
    opened.map_err(|fault| {
        let fault = match server.and_then(|found: Found| found.origin()) {
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
    (previous_connections, known): (&PreviousConnections, Option<Capabilities>),
    server: &mut Option<Found>,
) -> Opened {
    let (found, mut news) = (resolver.find().await?, resolver.news());
    *server = Some(found.clone());
    let mut greeting = greet(target, &found, known).await?;
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

/// Connects to the server that was found, and logs in. `known` is what the handshake tries, if that must not be found
/// out over further connections.
pub(super) async fn greet(
    target: &Target,
    found: &Found,
    known: Option<Capabilities>,
) -> Result<Greeting, Fault> {
    let (endpoint, primary) = (&found.endpoint, found.primary_for().is_some());
    let kind = (primary, target.cluster.is_some());
    let greeting = handshake::greet(endpoint, kind, target.guard, &target.needs, known).await;
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
        let replies = greeting.connection.ask(&[kill]).await?;
        // The reply is the number of closed connections. Zero means that the connection was already gone. An error
        // means that the user lacks the right.
        Ok(matches!(replies[..], [Value::Int(_)]))
    }
}
