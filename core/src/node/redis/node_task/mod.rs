//! Maintains the connection to one server: connects, serves, detects the end, pauses, and reconnects with the pending
//! deletes.
//!
//! Replies have the order of the commands. Late replies, pending deletes, pushes and silence require control of both
//! ends of one queue, so the connection is not that of the `redis` crate.
//!
//! [`reconnect`] decides when to connect, by an [`attempt_policy`]. [`super::connect`] opens a connection,
//! and [`super::connection`] uses it. The [`Context`] outlives each connection.

mod attempt_policy;
mod reconnect;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::connect::Opening;
use super::connection::Connection;
use super::connection::session::Usage;
use super::connection::task::{ConnectionTask, SessionEnd};
use super::protocol::InFlight;
use crate::clock::Instant;
use crate::node::redis::connection::task::context::Context;
use crate::node::redis::protocol::Backlog;
use crate::node::redis::protocol::redirects::ConnectionEvent;
use crate::node::{Change, Fault, Proof, Remedy};
use crate::runtime::environment;
use crate::telemetry::log;
use attempt_policy::{FIRST_PAUSE, WORKED_AFTER};
use reconnect::Reconnect;

/// The task of a node. It runs as long as the client exists, or a delete is pending.
pub(super) struct NodeTask {
    /// The state that outlives each connection.
    context: Context,
    /// The connection, which waiting threads also use.
    connection: Arc<Connection>,
    /// The state of the attempts to connect.
    reconnect: Reconnect,
    /// Since when there has been no connection despite an attempt.
    outage: Option<Instant>,
    /// When the server refused the first of the last attempts to connect, all of which it refused.
    refused_since: Option<Instant>,
}

impl NodeTask {
    /// Creates the task's state. It does not connect.
    pub(super) fn new(context: Context, connection: Arc<Connection>) -> Self {
        Self {
            context,
            connection,
            reconnect: Reconnect::default(),
            outage: None,
            refused_since: None,
        }
    }

    /// Runs until the client is gone and every command has its result. After a panic, the commands under way fail, and
    /// later commands start with a new connection.
    pub(super) async fn run(mut self) {
        while AssertUnwindSafe(self.serve_all()).catch_unwind().await.is_err() {
            self.context.link.closed();
            self.context.watch.changed(Change::Reset);
            // As before the first attempt: the next command waits for the connection instead of failing with the panic.
            self.reconnect.last = None;
            log::event!(
                Error, Node, { node: &*self.context.target.url }, "the node's task panicked and was restarted"
            );
            // Pauses, so that a repeated panic does not occupy the thread.
            environment::sleep(FIRST_PAUSE).await;
        }
    }

    /// Runs one session after another, until the client is gone and no delete is pending.
    async fn serve_all(&mut self) {
        let mut waiting = Vec::new();
        // An unused client does not connect. After a panic, pending deletes do not wait for a command.
        let mut is_needed = !Backlog::available(&mut self.context.backlog).pending.is_empty();
        loop {
            if !is_needed && !self.wait_for_use(&mut waiting).await {
                return;
            }
            let opened = self.reconnect.open(&mut self.context, &mut waiting).await;
            let Some(opened) = opened else { return };
            let (fault, usage, useless) = match opened {
                Ok(opening) => match self.serve_to_end(opening, &mut waiting).await {
                    Some((fault, usage, worked)) => (fault, usage, !worked),
                    None => return,
                },
                Err(fault) => {
                    // It reached a replica, a server that is starting, or a proxy without its server.
                    let useless = fault.remedy() == Remedy::Retry && !fault.is_unreached();
                    (self.judge(fault), Usage::default(), useless)
                }
            };
            let is_doubtful = fault.remedy() <= Remedy::Refused && self.refused_since.is_some();
            self.record_outage(fault, usage, &mut waiting);
            is_needed = self.is_needed_after(usage);
            if usage.paused {
                // No command was sent over the idle connection, so new commands wait for the next one.
                self.reconnect.last = None;
            }
            // Sent after the pending deletes, because another server may now own the key.
            if let Some(cluster) = &self.context.target.cluster {
                cluster.send(ConnectionEvent::Ended);
            }
            if is_needed || useless {
                self.reconnect.policy.failed(useless, is_doubtful, self.context.clock.now());
            }
        }
    }

    /// Runs one session. Returns why it ended, how it was used, and whether it worked. Returns `None` if the client is
    /// gone and every command has its result.
    async fn serve_to_end(
        &mut self,
        opening: Opening,
        waiting: &mut Vec<InFlight>,
    ) -> Option<(Fault, Usage, bool)> {
        self.refused_since = None;
        let opened = self.context.clock.now();
        let end = self.serve(opening, waiting).await;
        let now = self.context.clock.now();
        self.context.link.closed();
        self.context.link.guard.lost(now);
        let SessionEnd::Broken(fault, usage) = end else { return None };
        let Usage { paused, voted, unused } = usage;
        let mut worked = self.reconnect.policy.ended(now.since(opened), voted, unused);
        if paused {
            // It was replaced, or its probe failed, so the next attempt is not a repetition.
            self.reconnect.policy.forget();
            worked = true;
        }
        // Notifications may have been lost, also for a key whose vote was just read. Leases and waiting callers then
        // send commands.
        self.context.watch.changed(Change::Reset);
        Some((fault, usage, worked))
    }

    /// Whether to connect again without a command. A server or a load balancer that cuts idle connections would
    /// otherwise be asked for a new one after each cut.
    ///
    /// If a lease or a waiting caller needs a connection, it sends a command: every end of a connection is reported to
    /// them. Pending deletes need one. So do the restart guard, which must see when another server replaces this one,
    /// and a cluster, whose slots another server may take over.
    fn is_needed_after(&mut self, usage: Usage) -> bool {
        let target = &self.context.target;
        !usage.unused
            || !target.guard.is_zero()
            || target.cluster.is_some()
            || !Backlog::available(&mut self.context.backlog).pending.is_empty()
    }

    /// Waits for the first command. Returns false once the client is gone.
    async fn wait_for_use(&mut self, waiting: &mut Vec<InFlight>) -> bool {
        let begun = self.context.clock.now();
        let backlog = Backlog::available(&mut self.context.backlog);
        let Some(first) = backlog.commands.recv().await else { return false };
        backlog.wait(first, waiting);
        let now = self.context.clock.now();
        // No connection was missing before.
        self.outage = self.outage.map(|_| now);
        self.reconnect.policy.paused_for(now.since(begun));
        true
    }

    /// Decides whether the error of a failed attempt is permanent. A refusal must be repeated.
    fn judge(&mut self, fault: Fault) -> Fault {
        if fault.remedy() == Remedy::Retry {
            self.refused_since = None;
            return fault;
        }
        let now = self.context.clock.now();
        let since = *self.refused_since.get_or_insert(now);
        let fault = fault.of_attempt(now.since(since), self.context.link.was_open());
        let confirmed = fault.remedy() > Remedy::Refused;
        if confirmed
            && self.reconnect.last.as_ref().is_none_or(|last| last.remedy() <= Remedy::Refused)
        {
            // Callers that wait for their next attempt get the error now.
            self.context.watch.changed(Change::All);
        }
        fault
    }

    /// Handles a missing connection: logs it, and fails the commands that wait for a connection.
    fn record_outage(&mut self, fault: Fault, usage: Usage, waiting: &mut Vec<InFlight>) {
        let confirmed = fault.remedy() > Remedy::Refused;
        if confirmed {
            self.context.refused(&fault);
        }
        let (url, now) = (&*self.context.target.url, self.context.clock.now());
        if !confirmed && self.outage.is_none() {
            log::event!(Debug, Node, { node: url, fault: fault.to_string() }, "no connection");
        }
        // A cluster has its own outage. It may work without this server, which may be gone forever. The end of an
        // unused connection is not an outage.
        if !confirmed && !usage.unused && self.context.target.cluster.is_none() {
            self.context.link.outage.failed(url, now, &fault, Proof::Reply);
        }
        // One outage, regardless of the number of attempts.
        self.outage.get_or_insert(now);
        waiting.drain(..).for_each(|command| self.context.fail(command, &fault));
        self.reconnect.last = Some(fault);
    }

    /// Runs one session, from the handshake to its end.
    async fn serve(&mut self, opening: Opening, waiting: &mut Vec<InFlight>) -> SessionEnd {
        let context = &mut self.context;
        let greeting = &opening.greeting;
        context.opened(greeting, &opening.found);
        connected(context, self.outage.take());
        context.log_problems(greeting);
        // Recorded before the session starts, so that the next connection can close this one however it ends.
        self.reconnect.previous_connections.add(greeting);
        self.reconnect.supported = greeting.supported;
        // Changes without a connection were not reported.
        context.watch.changed(Change::All);
        // Behind a proxy that ends each connection, a second one would only be one more.
        let delay = if self.reconnect.policy.is_useless() { WORKED_AFTER } else { Duration::ZERO };
        let (task, session) =
            ConnectionTask::new(&self.connection, &mut self.context, opening, delay);
        task.run(session, std::mem::take(waiting)).await
    }
}

/// Logs that the connection is open, and how long it was missing.
fn connected(context: &Context, outage: Option<Instant>) {
    let node = &*context.target.url;
    let Some(since) = outage else {
        log::event!(Debug, Node, { node: node }, "connected");
        return;
    };
    let lasted = context.clock.now().since(since);
    log::event!(Debug, Node, { node: node, outage_ms: lasted }, "connected again");
}
