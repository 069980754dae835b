//! Queues commands for a connection, in order.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::Connection;
use super::protocol::InFlight;
use crate::drivers::{RuntimeDriver, submit};
use crate::runtime::flush_at_exit;

/// The sending side. Dropping the last clone ends the connection task.
#[derive(Clone)]
pub(super) struct Queue(Arc<Sender>);

struct Sender {
    /// Unbounded, because callers have deadlines, and a full connection takes no more commands ([`super::connection::session`]).
    commands: Option<UnboundedSender<InFlight>>,
    connection: Arc<Connection>,
    /// The driver of the client's runtime.
    runtime: Option<Arc<RuntimeDriver>>,
}

/// Creates a queue and the connection side of it.
pub(super) fn queue(
    runtime: Option<Arc<RuntimeDriver>>,
) -> (Queue, UnboundedReceiver<InFlight>, Arc<Connection>) {
    let (commands, taken) = unbounded_channel();
    let connection = Arc::new(Connection::new());
    let weak = Arc::downgrade(&connection);
    flush_at_exit(weak);
    let sender = Sender { commands: Some(commands), connection: Arc::clone(&connection), runtime };
    (Queue(Arc::new(sender)), taken, connection)
}

impl Queue {
    /// Adds a command after all earlier ones.
    pub(super) fn put(&self, in_flight: InFlight) {
        let Some(commands) = &self.0.commands else { return };
        // Fails only after the connection task has ended, which the caller sees by its dropped sender.
        let _ = commands.send(in_flight);
        submit(&self.0.connection, self.0.runtime.as_deref());
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The order matters: the connection task must find a closed queue when it is woken.
        self.commands = None;
        self.connection.call();
    }
}
