//! The protocol of one connection, without I/O: it works with commands, bytes and values, and never waits.
//!
//! [`Protocol`] is its state. [`sending`] encodes commands into it, and [`replies`] handles the replies. The time is an
//! argument.
//!
//! A command whose reply is lost fails ([`state`]). If it is a delete, it becomes pending ([`pending_deletes`]).
//! [`super::connection::session`] moves the bytes.

mod combined;
mod confirm;
mod in_flight;
mod merged_deletes;
mod pending_deletes;
mod push_handler;
pub(crate) mod redirects;
mod replies;
mod resp;
mod sending;
mod state;
#[cfg(test)]
mod tests;
mod unsent_votes;

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::node::Fault;
use crate::node::redis::commands::capabilities::Needs;
use crate::node::redis::url::route::Route;
use crate::runtime::lock;
use crate::telemetry::{Counts, log};

pub(crate) use in_flight::InFlight;
pub(crate) use pending_deletes::{Backlog, PendingDeletes};
pub(super) use push_handler::PushHandler;
use redirects::ClusterSender;
pub(super) use resp::Parser;
pub(super) use state::Protocol;

/// The interval for detecting a silent server. It is half of the shortest silence that counts (that of a probe), which
/// limits the delay.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// A server with open commands that is silent for this long is dead, unless a caller waits longer.
///
/// The deadline of a vote does not close a connection. A single short TTL must not cost a long lease its connection.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
/// The maximum length of a reply. No memory is spent on the rest of a longer one. The parser reserves nothing for what
/// a header announces.
pub(super) const LARGEST: usize = 1 << 20;
/// The maximum length of a reply about a cluster. If each slot has another owner than the one before, a row has some
/// hundred bytes.
pub(super) const LARGEST_MAP: usize = 8 << 20;

/// The target of a connection, and what it must support.
#[derive(Clone)]
pub(crate) struct Target {
    /// The node's URL without its password.
    pub(crate) url: String,
    /// How the server is found, and the login to use.
    pub(crate) route: Route,
    /// `restart_guard`: a server with a shorter uptime takes no first vote.
    pub(crate) guard: Duration,
    /// What the server and its user must support.
    pub(crate) needs: Needs,
    /// The servers of the client's other nodes. A server behind two of them would vote twice.
    pub(crate) run_ids: Arc<RunIds>,
    /// Sends events to the cluster of the server. `None` for a standalone server.
    pub(crate) cluster: Option<ClusterSender>,
    /// The statistics of the client.
    pub(crate) counts: Arc<Counts>,
}

impl Target {
    /// Creates the target of a standalone server.
    pub(crate) fn alone(route: Route, guard: Duration, needs: Needs, run_ids: Arc<RunIds>) -> Self {
        let (url, counts) = (route.shown_url(), Arc::default());
        Self { url, route, guard, needs, run_ids, cluster: None, counts }
    }

    /// Logs a problem of the node.
    pub(crate) fn warn(&self, fault: &dyn Display) {
        log::event!(Warn, Node, { node: &*self.url }, "{fault}", fault = fault);
    }
}

/// Detects two nodes of a client that are the same server, which would vote twice in a quorum. The URLs are compared
/// when the client is created, but two names of one server can only be detected by the `run_id` of the server.
///
/// Holds the `run_id` that each node has reached, by its URL and the server's address. A cluster has several. An entry
/// is replaced if another server is found at the address.
#[derive(Default)]
pub(crate) struct RunIds(Mutex<HashMap<(String, String), String>>);

impl RunIds {
    /// Records the server that a node reached. Fails without a record if another node has reached the same server. The
    /// first node keeps it, and a node that never worked has a wrong URL.
    pub(crate) fn enter(&self, url: &str, address: &str, run_id: &str) -> Result<(), Fault> {
        let mut servers = lock(&self.0);
        let twice = servers.iter().find(|((other, _), id)| *other != url && *id == run_id);
        let Some(((other, _), _)) = twice else {
            servers.insert((url.to_owned(), address.to_owned()), run_id.to_owned());
            return Ok(());
        };
        let text = format!("it is the same server as {other} (run_id ");
        // The node had another server before. After a failover, an address may temporarily lead to the server of
        // another node. Servers of a cluster do not move like that.
        let worked = address.is_empty() && servers.keys().any(|(worked, _)| worked == url);
        let fault = if worked { Fault::new(text) } else { Fault::invalid(text) };
        Err(fault.saying(run_id, "). A quorum needs independent nodes"))
    }
}
