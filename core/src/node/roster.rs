//! Which server stands behind which node of a client: a quorum of one server twice would be no quorum.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Fault;

#[derive(Default)]
pub(crate) struct Roster(Mutex<HashMap<String, String>>);

impl Roster {
    /// Notes the server that a node reached; a fault if another node reaches the same one.
    pub(super) fn enter(&self, url: &str, run_id: &str) -> Result<(), Fault> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(url.to_owned(), run_id.to_owned());
        let twice = servers.iter().find(|(other, id)| *other != url && *id == run_id);
        twice.map_or(Ok(()), |(other, _)| {
            let before = format!("it is the same server as {other} (run_id ");
            Err(Fault::invalid(before).saying(run_id, "): a quorum needs independent nodes"))
        })
    }
}
