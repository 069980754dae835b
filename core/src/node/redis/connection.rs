//! One connection to one server: first in, first out, pipelined, with reconnects and the deletes it owes.
//!
//! It is ours rather than the `redis` crate's, which packs and parses: late answers, owed deletes, pushes and
//! silence need one queue both ends of which we see.
//!
//! Here stands the outermost loop: connect, serve, find out that it broke, begin again. How a connection is
//! opened is in [`super::reconnect`], what happens over an open one in [`super::session`]; neither outlives its
//! connection, the [`Context`] does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::context::{Context, Home, Opening};
use super::in_flight::InFlight;
use super::keeper::{End, Keeper};
use super::lane::Lane;
use super::reconnect::Reconnect;
use super::strays::Stray;
use crate::clock::Instant;
use crate::log;
use crate::node::{Change, Fault, Remedy};

/// The pause after the first failure; each one after it is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// A server that is back is found within this, also by a client that asks nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted so long was a good one: the next is tried without delay.
///
/// One that breaks right after its greeting must not be opened a thousand times a second.
const GOOD: Duration = Duration::from_secs(1);

/// A node's connection, for as long as there is a client.
pub(super) struct Connection {
    /// What outlives each connection, while no session has it.
    context: Home,
    /// Where sessions are lent.
    lane: Arc<Lane>,
    /// What is known of the attempts before.
    reconnect: Reconnect,
    /// What the server does not support was logged: once, not at every reconnect.
    degraded_said: bool,
    /// Since when there is no connection, though one was tried.
    outage: Option<Instant>,
    /// The server refused the last attempt to connect.
    refused: bool,
}

impl Connection {
    /// Connects to nothing yet.
    pub(super) fn new(context: Context, lane: Arc<Lane>) -> Self {
        let (context, reconnect) = (Home::of(context), Reconnect::default());
        Self { context, lane, reconnect, degraded_said: false, outage: None, refused: false }
    }

    /// Serves until the client is gone and every command it gave was answered. Should it panic, what was under way is
    /// refused, and the next command finds it as new.
    pub(super) async fn run(mut self) {
        while AssertUnwindSafe(self.serve_all()).catch_unwind().await.is_err() {
            self.context.link.closed();
            self.context.watch.changed(Change::All);
            // As before the first attempt: the next command waits for it rather than be told of the panic.
            self.reconnect.last = None;
            log::event!(
                Error, Node, { node: &*self.context.target.url }, "the node's own task panicked, and begins anew"
            );
            // What panics each time must not take the whole thread.
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }

    /// One session after the other, until the client is gone and nothing is owed.
    async fn serve_all(&mut self) {
        let mut waiting = Vec::new();
        // Nothing connects before the first use.
        // After a panic there may be debts: those do not wait for a command.
        if self.context.debts.is_empty() {
            match self.context.commands.recv().await {
                Some(first) => waiting.push(first),
                None => return,
            }
        }
        let mut pause = Duration::ZERO;
        loop {
            let opened = self.reconnect.open(&mut self.context, pause, &mut waiting).await;
            let Some(opened) = opened else { return };
            let mut forgotten = false;
            let fault = match opened {
                Ok(opening) => {
                    self.refused = false;
                    let opened = self.context.clock.now();
                    let end = self.serve(opening, &mut waiting).await;
                    self.context.link.closed();
                    // The client is gone, and everything was answered.
                    let End::Broken { fault, idle } = end else { return };
                    forgotten = idle;
                    if self.context.clock.now().since(opened) > GOOD {
                        pause = Duration::ZERO;
                    }
                    // What was pushed meanwhile went nowhere.
                    self.context.watch.changed(Change::All);
                    fault
                }
                Err(fault) => {
                    let refused = fault.remedy() == Remedy::Refused;
                    fault.of_attempt(std::mem::replace(&mut self.refused, refused))
                }
            };
            self.note(fault, &mut waiting);
            if forgotten {
                // No command was sent over it: those that come wait for the next connection.
                self.reconnect.last = None;
            }
            // Behind what was owed: by then another server may have the key.
            self.context.target.say(Stray::Ended);
            // Twice as long after each failure; half of it at least is at random.
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// There is no connection: whoever waits for one is told why.
    fn note(&mut self, fault: Fault, waiting: &mut Vec<InFlight>) {
        let (url, now) = (&*self.context.target.url, self.context.clock.now());
        // Warned of once, however often it is tried: nobody mends it meanwhile.
        if fault.remedy() > Remedy::Refused && self.reconnect.last.as_ref() != Some(&fault) {
            self.context.warn(&fault);
        } else if self.outage.is_none() {
            log::event!(Debug, Node, { node: url, fault: fault.to_string() }, "no connection");
        }
        if fault.remedy() <= Remedy::Refused {
            self.context.link.outage.failed(url, now, &fault);
        }
        // One outage, however often it is tried.
        self.outage.get_or_insert(now);
        waiting.drain(..).for_each(|command| self.context.refuse_unsent(command, &fault));
        self.reconnect.last = Some(fault);
    }

    /// One session, from what its greeting found out to its end.
    async fn serve(&mut self, opening: Opening, waiting: &mut Vec<InFlight>) -> End {
        let context = &mut *self.context;
        let (greeting, pushes) = (&opening.greeting, opening.greeting.pushes);
        let votes_from = context.votes_from(greeting, &opening.found);
        context.link.set_used(context.clock.now());
        context.link.opened(pushes, greeting.deletes_by, votes_from);
        context.link.outage.replied(&context.target.url, || context.clock.now());
        connected(context, self.outage.take());
        if let Some(fault) = context.link.guard_fault(|| None, || context.clock.now()) {
            context.warn(&fault);
        }
        if let Some((commands, effects)) = greeting.without.described()
            && !std::mem::replace(&mut self.degraded_said, true)
        {
            log::event!(
                Warn, Node, { node: &*context.target.url },
                "the server, or a proxy before it, does not support {commands}: {effects}",
                commands = commands, effects = effects,
            );
        }
        context.target.say(Stray::Opened);
        // Before it serves: however it ends, its successor knows whom to have killed.
        self.reconnect.formers.add(greeting);
        // Nobody was told of what changed while there was no connection.
        context.watch.changed(Change::All);
        // Nothing else follows an end at which everything was answered.
        match Keeper::begin(&self.lane, &mut self.context, opening, waiting) {
            Ok(keeper) => keeper.run().await,
            Err(fault) => End::Broken { fault, idle: false },
        }
    }
}

/// Logs that there is a connection, and how long there was none.
fn connected(context: &Context, outage: Option<Instant>) {
    let node = &*context.target.url;
    let Some(since) = outage else {
        log::event!(Debug, Node, { node: node }, "connected");
        return;
    };
    let lasted = context.clock.now().since(since);
    log::event!(Debug, Node, { node: node, outage_ms: lasted }, "connected again");
}
