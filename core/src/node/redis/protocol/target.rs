//! The target of a connection: how its server is found, and what it must support.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::redirects::ClusterSender;
use crate::node::Fault;
use crate::node::redis::commands::rights::Needs;
use crate::node::redis::url::route::Route;
use crate::runtime::lock;
use crate::telemetry::{Counts, log};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_run_id_stays_and_conflicts_fail_only_later_nodes() {
        let run_ids = RunIds::default();
        run_ids.enter("a", "", "one").unwrap();
        assert!(run_ids.enter("b", "", "one").unwrap_err().permanent().is_some());
        run_ids.enter("a", "", "one").unwrap();
        run_ids.enter("b", "", "two").unwrap();
        // It worked before, so the error is not about the options.
        assert!(run_ids.enter("b", "", "one").unwrap_err().permanent().is_none());
        run_ids.enter("a", "", "one").unwrap();
        run_ids.enter("a", "", "three").unwrap();
        run_ids.enter("b", "", "one").unwrap();
    }

    #[test]
    fn clusters_may_not_share_a_server() {
        let run_ids = RunIds::default();
        run_ids.enter("a", "a:1", "one").unwrap();
        run_ids.enter("a", "a:2", "two").unwrap();
        // One server with two addresses.
        run_ids.enter("a", "a:3", "two").unwrap();
        assert!(run_ids.enter("b", "b:1", "two").unwrap_err().permanent().is_some());
        run_ids.enter("b", "b:1", "three").unwrap();
        assert!(run_ids.enter("b", "b:2", "one").unwrap_err().permanent().is_some());
    }
}
