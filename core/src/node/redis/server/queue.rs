//! The queue of commands of a connection, which any thread fills.

use std::sync::Arc;

use futures_util::FutureExt;
use redis::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::drivers::{Driven, RuntimeDriver, submit};
use crate::node::Fault;
use crate::node::redis::commands::command::Command;
use crate::node::redis::connection::Connection;
use crate::node::redis::protocol::InFlight;
use crate::node::redis::state::link::Link;
use crate::runtime::flush_at_exit;

/// Queues commands for a connection, in order. Dropping it ends the node's task.
pub(crate) struct Queue {
    /// Unbounded, because callers have deadlines, and a full connection takes no more commands
    /// ([`crate::node::redis::connection::session`]).
    commands: Option<UnboundedSender<InFlight>>,
    connection: Arc<dyn Driven>,
    /// The state of the connection, which also counts deletes.
    pub(super) link: Arc<Link>,
    /// The driver of the client's runtime.
    runtime: Option<Arc<RuntimeDriver>>,
}

/// Creates a queue and the connection side of it.
pub(crate) fn queue(
    runtime: Option<Arc<RuntimeDriver>>,
) -> (Arc<Queue>, UnboundedReceiver<InFlight>, Arc<Connection>) {
    let (commands, taken) = unbounded_channel();
    let connection = Arc::new(Connection::new());
    let weak = Arc::downgrade(&connection);
    flush_at_exit(weak);
    let (driven, link): (Arc<dyn Driven>, _) = (connection.clone(), Arc::default());
    let queue = Queue { commands: Some(commands), connection: driven, link, runtime };
    (Arc::new(queue), taken, connection)
}

impl Queue {
    pub(crate) fn put(&self, mut in_flight: InFlight) {
        let Some(commands) = &self.commands else { return };
        in_flight.count(self.link.deletes());
        // Fails only after the node's task has ended, which the caller sees by its dropped sender.
        let _ = commands.send(in_flight);
        submit(&self.connection, self.runtime.as_deref());
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The order matters: the node's task must find a closed queue when it is woken.
        self.commands = None;
        self.connection.wake_task();
    }
}

const GONE: &str = "the client is closed, or the node's task failed";

/// Sends the command when called. The future returns the reply.
pub(crate) fn send(
    queue: &Arc<Queue>,
    command: Command,
) -> impl Future<Output = Result<Value, Fault>> + Send + 'static + use<> {
    let (reply_to, reply) = oneshot::channel();
    queue.put(InFlight::new(command, reply_to));
    reply.map(|reply| reply.unwrap_or_else(|_| Err(Fault::new(GONE))))
}
