//! The commands of a node that wait, and its pending deletes.

use tokio::sync::mpsc::UnboundedReceiver;

use super::in_flight::InFlight;
use super::pending_deletes::PendingDeletes;

/// The commands of a node without a connection, and the pending deletes. An open connection takes it and returns it at
/// its end.
pub(crate) struct Backlog {
    /// The commands of the node. Closed once the client is gone: everything that could
    /// send one.
    pub(crate) commands: UnboundedReceiver<InFlight>,
    /// Deletes without a confirmation, and the votes whose deletes are not needed.
    pub(crate) pending: PendingDeletes,
}

impl Backlog {
    /// Returns the backlog. Must not be called while a connection uses it.
    pub(crate) fn of(context: &mut Option<Self>) -> &mut Self {
        context.as_mut().expect("a connection has the backlog")
    }

    /// Lets a command wait for a connection.
    pub(crate) fn wait(&mut self, mut in_flight: InFlight, waiting: &mut Vec<InFlight>) {
        self.pending.unsent_votes.waiting(&mut in_flight);
        waiting.push(in_flight);
    }
}
