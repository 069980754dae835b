//! Runs the task of a cluster, which maintains the map, and forwards commands that have no owner or no waiting caller.
//! [`MapState`] applies the changes of the map.
//!
//! Once there is a map, only commands that a server could not serve pass through here. A redirected vote does not, so
//! the order of a key's votes and deletes is preserved ([`super::redirects`]).

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use redis::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::discovery::{Discovery, FoundTopology, When};
use super::map::Member;
use super::state::MapState;
use crate::node::redis::io::endpoint::ServerAddress;
use crate::node::redis::protocol::InFlight;
use crate::node::redis::protocol::redirects::{ConnectionEvent, Redirect, redirect_pause};
use crate::node::{Fault, Node};
use crate::runtime::environment::{race, sleep, timeout};
use crate::telemetry::log;

/// The pause after a panic, so that a repeated one does not occupy the thread.
const PANIC_PAUSE: Duration = Duration::from_millis(20);
/// How long the task of a closed client waits for replies, and pauses before it checks the pending deletes again.
const SHUTDOWN_REPLIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(100));

type Later<T> = FuturesUnordered<BoxFuture<'static, T>>;

/// The task of a cluster.
pub(super) struct ClusterTask {
    unassigned: UnboundedReceiver<InFlight>,
    events: UnboundedReceiver<(ServerAddress, ConnectionEvent)>,
    state: MapState,
    /// Determines when to request the map, and from which servers.
    discovery: Discovery,
    failed: Option<Fault>,
    waiting: Vec<InFlight>,
    /// Redirected commands that wait before they are sent again, to this server or to the owner of their slot.
    delayed: Later<(InFlight, Option<Arc<Member>>)>,
    /// Whether the client is gone.
    pub(super) closing: bool,
    /// Once the client is gone, completes with whether the work of all servers has ended.
    shutdown: Later<bool>,
}

impl ClusterTask {
    pub(super) fn new(
        unassigned: UnboundedReceiver<InFlight>,
        events: UnboundedReceiver<(ServerAddress, ConnectionEvent)>,
        state: MapState,
    ) -> Self {
        Self {
            unassigned,
            events,
            discovery: Discovery::new(Arc::clone(&state.clock)),
            state,
            failed: None,
            waiting: Vec::new(),
            delayed: Later::new(),
            closing: false,
            shutdown: Later::new(),
        }
    }

    /// Runs until the client is gone and no delete is pending. After a panic, it continues with the next event.
    pub(super) async fn run(mut self, mut client: oneshot::Receiver<()>) {
        while AssertUnwindSafe(self.serve(&mut client)).catch_unwind().await.is_err() {
            log::event!(
                Error, Node, { node: &*self.state.target.url },
                "the cluster task panicked and continues"
            );
            sleep(PANIC_PAUSE).await;
        }
    }

    async fn serve(&mut self, client: &mut oneshot::Receiver<()>) {
        loop {
            if self.closing && self.shutdown.is_empty() {
                self.shut_down();
            }
            race! {
                Some(in_flight) = self.unassigned.recv() => self.route_command(in_flight, true),
                Some((from, event)) = self.events.recv() => match event {
                    ConnectionEvent::Redirected(in_flight, redirect) => {
                        self.forward(&from, in_flight, redirect);
                    }
                    ConnectionEvent::DeletePending(command, redirects) => {
                        self.state.add_pending(&from, command, redirects);
                    }
                    ConnectionEvent::Ended => {
                        if let Some(when) = self.state.closed(&from) {
                            self.discovery.schedule(when);
                        }
                    }
                },
                Some((in_flight, to)) = self.delayed.next() => match to {
                    Some(to) => to.node.queue.put(in_flight),
                    None => self.route_command(in_flight, true),
                },
                found = self.discovery.next() => match found {
                    Some(found) => self.found(found),
                    None => self.discover(),
                },
                // The sender is dropped with the client's node.
                _ = &mut *client, if !self.closing => self.closing = true,
                Some(ended) = self.shutdown.next() => {
                    let idle = self.delayed.is_empty() && self.waiting.is_empty();
                    if ended && idle && self.events.is_empty() && self.unassigned.is_empty() {
                        return;
                    }
                }
            }
        }
    }

    /// Called when the client is gone. Waits for the replies of the servers, especially to deletes.
    fn shut_down(&mut self) {
        let (members, clock) = (self.state.members(), Arc::clone(&self.state.clock));
        let busy = !self.delayed.is_empty() || !self.waiting.is_empty();
        let rerouted =
            self.state.target.cluster.as_ref().map(|cluster| Weak::clone(&cluster.rerouted));
        self.shutdown.push(Box::pin(async move {
            let (replies, pause) = SHUTDOWN_REPLIES;
            let all = members.iter().map(|member| member.node.drained());
            let _ = timeout(replies, join_all(all)).await;
            // Deletes that were redirected by then count at their new server, or in `rerouted`.
            let now = clock.now();
            let over = !members.iter().any(|member| member.node.link.may_leave_keys(now))
                && rerouted.is_none_or(|rerouted| rerouted.strong_count() == 0);
            if !over || busy {
                sleep(pause).await;
            }
            over
        }));
    }

    /// Passes the command to the owner of its slot. Without an owner, it `waits` until a discovery ends, or fails. A
    /// failed delete becomes pending for the next owner.
    fn route_command(&mut self, mut in_flight: InFlight, waits: bool) {
        let Some(slot) = in_flight.command.slot() else {
            // A command without a key only waits for earlier commands, which have completed here.
            let _ = in_flight.reply_to.send(Ok(Value::Okay));
            return;
        };
        if let Some(cluster) = &self.state.target.cluster {
            in_flight.count_rerouted(&cluster.rerouted);
        }
        let (map, now) = (self.state.map.load_full(), self.state.clock.now());
        match map.known_owner(slot) {
            Some(owner) if !in_flight.is_unwanted() => owner.node.queue.put(in_flight),
            None if waits && !in_flight.is_unwanted() => {
                // When it continues, its own delete may already have reached the owner.
                in_flight.redirects.since.get_or_insert(now);
                self.waiting.push(in_flight);
                if !self.discovery.is_running() {
                    self.discovery.schedule(match self.failed {
                        Some(_) => When::AfterPause,
                        None if self.state.topology.disputes(slot) => When::Soon,
                        None => When::Now,
                    });
                }
            }
            _ => {
                let fault = self.failed.clone();
                let fault = fault.unwrap_or_else(|| self.state.topology.fault(slot));
                self.state.fail_unsent(in_flight, &fault);
            }
        }
    }

    /// Applies a redirect of `from`, and sends its command again after a pause.
    ///
    /// It goes to the owner by the map, whose new slots are guarded. The server in a `MOVED` may have lost the slot
    /// again.
    fn forward(&mut self, from: &ServerAddress, command: Option<InFlight>, redirect: Redirect) {
        let has_changed = match &redirect {
            Redirect::Moved(slot, to) => self.state.apply_redirect(from, *slot, to),
            Redirect::NoOwner => {
                self.state.refused(from);
                true
            }
            // The slot is migrating, and moves later.
            Redirect::Ask(_) | Redirect::TryAgain => false,
        };
        if has_changed {
            self.discovery.schedule(When::AfterPause);
        }
        let Some(mut in_flight) = command else { return };
        let (now, heard) = (self.state.clock.now(), !in_flight.reply_to.is_closed());
        let InFlight { redirects, command, .. } = &mut in_flight;
        let Some(pause) = redirect_pause(redirects, &mut command.purpose, heard, now) else {
            let why = "the servers of the cluster redirected the command until it timed out";
            let _ = in_flight.reply_to.send(Err(Fault::new(why)));
            return;
        };
        let to = match redirect {
            Redirect::Ask(to) => Some(self.state.server(&to.announced_by(from))),
            _ => None,
        };
        redirects.asking = to.is_some();
        self.delayed.push(Box::pin(async move {
            sleep(pause).await;
            (in_flight, to)
        }));
    }

    /// Handles the result of a discovery. Commands without an owner fail.
    fn found(&mut self, found: FoundTopology) {
        match found {
            Ok(topology) => {
                self.failed = None;
                self.state.apply_discovery(topology);
            }
            Err(fault) => {
                if self.failed.is_none() {
                    log::event!(
                        Info, Node, { node: &*self.state.target.url, fault: fault.to_string() },
                        "cannot read the cluster's slots"
                    );
                }
                self.failed = Some(fault);
            }
        }
        for in_flight in std::mem::take(&mut self.waiting) {
            self.route_command(in_flight, false);
        }
        let problem = self.failed.is_some() || self.state.is_unsettled();
        self.discovery.settle(problem, self.state.knows_servers());
    }

    /// Starts a discovery. If the last one failed, it queries every server that may know the slots.
    fn discover(&mut self) {
        let servers = self.state.servers_to_query(self.failed.is_some());
        self.discovery.start_discovery(servers, self.state.knows_servers());
    }
}
