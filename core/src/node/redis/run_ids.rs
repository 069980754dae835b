//! Which server stands behind which node of a client: a quorum of one server twice would be no quorum.
//!
//! The URLs were compared when the client was made; two names for one server only the server can tell, by its
//! `run_id`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::node::Fault;

/// The `run_id` that each node of a client has reached, by its URL and the address of the server: a cluster has
/// several.
///
/// An entry is replaced when another server is found at the address.
#[derive(Default)]
pub(crate) struct RunIds(Mutex<HashMap<(String, String), String>>);

impl RunIds {
    /// Notes the server that a node reached; a fault if another node has reached the same one, of which nothing is
    /// noted: the first stands, whoever says the same later. A node that never worked has a wrong URL.
    pub(super) fn enter(&self, url: &str, address: &str, run_id: &str) -> Result<(), Fault> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let twice = servers.iter().find(|((other, _), id)| *other != url && *id == run_id);
        let Some(((other, _), _)) = twice else {
            servers.insert((url.to_owned(), address.to_owned()), run_id.to_owned());
            return Ok(());
        };
        let text = format!("it is the same server as {other} (run_id ");
        // It had a server of its own: an address that fails over may lead to another node's for a while, which
        // ends by itself.
        // Servers of a cluster stay with it.
        let worked = address.is_empty() && servers.keys().any(|(worked, _)| worked == url);
        let fault = if worked { Fault::new(text) } else { Fault::invalid(text) };
        Err(fault.saying(run_id, "): a quorum needs independent nodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stands_and_a_liar_takes_nobody_along() {
        let run_ids = RunIds::default();
        run_ids.enter("a", "", "one").unwrap();
        assert!(run_ids.enter("b", "", "one").unwrap_err().permanent().is_some());
        run_ids.enter("a", "", "one").unwrap();
        run_ids.enter("b", "", "two").unwrap();
        // It worked once, so what it says now is no mistake in the options.
        assert!(run_ids.enter("b", "", "one").unwrap_err().permanent().is_none());
        run_ids.enter("a", "", "one").unwrap();
        run_ids.enter("a", "", "three").unwrap();
        run_ids.enter("b", "", "one").unwrap();
    }

    #[test]
    fn a_cluster_has_many_servers_and_two_clusters_none_together() {
        let run_ids = RunIds::default();
        run_ids.enter("a", "a:1", "one").unwrap();
        run_ids.enter("a", "a:2", "two").unwrap();
        // Known by two addresses.
        run_ids.enter("a", "a:3", "two").unwrap();
        assert!(run_ids.enter("b", "b:1", "two").unwrap_err().permanent().is_some());
        run_ids.enter("b", "b:1", "three").unwrap();
        assert!(run_ids.enter("b", "b:2", "one").unwrap_err().permanent().is_some());
    }
}
