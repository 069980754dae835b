//! Detects two nodes of a client that are the same server, which would vote twice in a quorum.
//!
//! The URLs are compared when the client is created. Two names of one server can only be detected by the `run_id` of
//! the server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::node::Fault;

/// The `run_id` that each node of a client has reached, by its URL and the server's address. A cluster has several.
///
/// An entry is replaced if another server is found at the address.
#[derive(Default)]
pub(crate) struct RunIds(Mutex<HashMap<(String, String), String>>);

impl RunIds {
    /// Records the server that a node reached. Fails without a record if another node has reached the same server. The
    /// first node keeps it, and a node that never worked has a wrong URL.
    pub(super) fn enter(&self, url: &str, address: &str, run_id: &str) -> Result<(), Fault> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
