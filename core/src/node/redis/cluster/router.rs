//! Runs the task of a cluster, which redirects commands and maintains the map.
//!
//! Only commands that a server could not serve pass through here, together with their waiting callers. The order of a
//! key's votes and deletes is preserved in two ways. A vote without a waiting caller is never redirected, and deletes
//! are only sent after the caller stopped waiting. And deletes follow the votes at former owners too ([`super::map`]).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::super::protocol::InFlight;
use super::super::strays::{Address, Redirect, Stray};
use super::atlas::{Atlas, Later, slot_of};
use super::ending::{Ending, ended, over};
use super::onward::{MOMENT, Onward, onward, pause, rested};
use super::survey::Found;
use crate::clock::Instant;
use crate::log;
use crate::node::Fault;

/// How long commands fail immediately after a survey found nothing.
const CALM: Duration = Duration::from_millis(200);

/// The state of the task.
pub(super) struct Router {
    /// Commands whose owner is not known.
    lobby: UnboundedReceiver<InFlight>,
    /// What the connections could not complete.
    strays: UnboundedReceiver<(Address, Stray)>,
    /// The known state of the cluster.
    atlas: Atlas,
    /// Commands that wait for the survey.
    waiting: Vec<InFlight>,
    /// Commands that wait before they are redirected.
    delayed: Later<InFlight>,
    /// Why and when the last survey failed.
    failed: Option<(Fault, Instant)>,
    /// Set once the client is gone. The work under way then ends.
    ending: Option<Ending>,
}

impl Router {
    /// Creates a router without commands.
    pub(super) fn new(
        lobby: UnboundedReceiver<InFlight>,
        strays: UnboundedReceiver<(Address, Stray)>,
        atlas: Atlas,
    ) -> Self {
        let (waiting, delayed) = (Vec::new(), Later::new());
        Self { lobby, strays, atlas, waiting, delayed, failed: None, ending: None }
    }

    /// Runs until the client is gone and no delete is pending. After a panic, it continues with the next event.
    pub(super) async fn run(mut self, mut client: oneshot::Receiver<()>) {
        while AssertUnwindSafe(self.serve(&mut client)).catch_unwind().await.is_err() {
            log::event!(
                Error, Node, { node: self.atlas.members.url() },
                "the cluster task panicked and continues"
            );
            sleep(MOMENT).await;
        }
    }

    async fn serve(&mut self, client: &mut oneshot::Receiver<()>) {
        loop {
            let ending = self.ending.is_some();
            tokio::select! {
                Some(in_flight) = self.lobby.recv() => self.place(in_flight),
                Some((from, stray)) = self.strays.recv() => self.take(&from, stray),
                Some(in_flight) = self.delayed.next() => self.place(in_flight),
                Some((member, age)) = self.atlas.emptied.next() => {
                    self.atlas.forget_former(&member, age);
                }
                found = self.atlas.survey.next() => match found {
                    Some(found) => self.found(found),
                    None => self.atlas.ask(self.failed.is_some()),
                },
                // The sender is dropped with the client's node.
                _ = &mut *client, if !ending => self.end(),
                over = over(&mut self.ending) => {
                    let idle = self.delayed.is_empty() && self.waiting.is_empty();
                    if over && idle && self.strays.is_empty() && self.lobby.is_empty() {
                        return;
                    }
                    self.end();
                }
            }
        }
    }

    /// Called when the client is gone. Waits for the replies of the servers, especially to deletes.
    fn end(&mut self) {
        let members =
            self.atlas.members.all().chain([Arc::clone(self.atlas.map.load().lobby())]).collect();
        self.ending = Some(Box::pin(ended(members, Arc::clone(&self.atlas.clock))));
    }

    /// Passes the command to the owner of its slot, or lets it wait for a survey.
    fn place(&mut self, mut in_flight: InFlight) {
        let Some(slot) = slot_of(&in_flight.command) else {
            // A command without a key only waits for the completion of earlier ones, which is given here.
            let _ = in_flight.answer.send(Ok(redis::Value::Okay));
            return;
        };
        if in_flight.is_unwanted() {
            self.atlas.unsent_votes.not_sent(&mut in_flight);
            return;
        }
        let map = self.atlas.map.load_full();
        let owner = map.owner(slot);
        in_flight.detour.asking = false;
        if owner.address.is_some() {
            owner.node.give(in_flight);
            return;
        }
        let now = self.atlas.clock.now();
        match &self.failed {
            Some((fault, at)) if now.since(*at) < CALM && !self.atlas.survey.is_running() => {
                let fault = fault.clone();
                self.refuse(in_flight, &fault);
            }
            _ => {
                self.atlas.members.keep(&mut in_flight);
                // When it continues, its own delete may already have reached the owner.
                in_flight.detour.hops += 1;
                self.waiting.push(in_flight);
                if !self.atlas.survey.is_running() {
                    self.atlas.survey.want_now();
                }
            }
        }
    }

    /// Refuses a command that has no owner. A delete becomes pending for the next owner of the slot.
    fn refuse(&mut self, mut in_flight: InFlight, fault: &Fault) {
        self.atlas.unsent_votes.not_sent(&mut in_flight);
        self.atlas.pending.refuse(in_flight, fault, self.atlas.clock.now());
    }

    /// Handles an event of a connection.
    fn take(&mut self, from: &Address, stray: Stray) {
        match stray {
            Stray::Redirected(in_flight, redirect) => self.redirect(from, in_flight, redirect),
            Stray::Told(Redirect::Moved(slot, to)) => {
                self.atlas.believe(from, slot, &to);
            }
            Stray::Told(_) => self.atlas.refused(from),
            Stray::Owed(command, detour) => self.atlas.owe(from, command, detour),
            Stray::Opened => self.atlas.members.opened(from),
            Stray::Ended => {
                let first = self.atlas.members.ended(from);
                match self.atlas.map.load().has(from) {
                    true if first => self.atlas.survey.want_now(),
                    true => self.atlas.survey.want(),
                    false => {}
                }
            }
        }
    }

    /// Redirects a command that `from` did not serve.
    fn redirect(&mut self, from: &Address, mut in_flight: InFlight, redirect: Redirect) {
        let now = self.atlas.clock.now();
        let listened = (in_flight.command.timeout, !in_flight.answer.is_closed());
        let purpose = &mut in_flight.command.purpose;
        let asked = matches!(redirect, Redirect::Ask(_));
        let onward = onward(&mut in_flight.detour, purpose, listened, asked, now);
        match onward {
            Onward::Dropped => return,
            Onward::Late => {
                let why = "the servers of the cluster redirected the command until it timed out";
                let _ = in_flight.answer.send(Err(Fault::new(why)));
                return;
            }
            Onward::AtOnce | Onward::Later => {}
        }
        let to = match redirect {
            // To the owner by the map, whose new slots are guarded. The server in the redirect may have lost the slot
            // again.
            Redirect::Moved(slot, to) => {
                self.atlas.believe(from, slot, &to);
                slot_of(&in_flight.command)
                    .map(|slot| Arc::clone(self.atlas.map.load().owner(slot)))
            }
            Redirect::Ask(to) => {
                in_flight.detour.asking = true;
                Some(self.atlas.members.get(&to.or_host_of(from)))
            }
            Redirect::TryAgain => None,
            Redirect::Nobody => {
                self.atlas.refused(from);
                None
            }
        };
        match to {
            Some(to) if onward == Onward::AtOnce => to.node.give(in_flight),
            _ => {
                let pause = pause(&in_flight.detour, now);
                self.delayed.push(Box::pin(async move {
                    sleep(pause).await;
                    rested(&mut in_flight.detour);
                    in_flight
                }));
            }
        }
    }

    /// Handles the result of a survey.
    fn found(&mut self, found: Found) {
        let waiting = std::mem::take(&mut self.waiting);
        match found {
            Ok(topology) => {
                self.failed = None;
                self.atlas.apply(&topology);
                self.atlas.members.learn(topology, &self.atlas.map.load(), self.atlas.clock.now());
                self.atlas.pending.forget_expired(self.atlas.clock.now());
            }
            Err(fault) => {
                if self.failed.is_none() {
                    self.atlas.say_lost(&fault);
                }
                self.failed = Some((fault, self.atlas.clock.now()));
            }
        }
        for in_flight in waiting {
            let map = self.atlas.map.load_full();
            let lost =
                slot_of(&in_flight.command).filter(|slot| map.owner(*slot).address.is_none());
            match (lost, &self.failed) {
                (None, _) => self.place(in_flight),
                (Some(_), Some((fault, _))) => {
                    let fault = fault.clone();
                    self.refuse(in_flight, &fault);
                }
                (Some(slot), None) => {
                    let why = format!("no server of the cluster has the hash slot {slot}");
                    self.refuse(in_flight, &Fault::new(why));
                }
            }
        }
        let known = !self.atlas.map.load().servers().is_empty();
        if known && (self.failed.is_some() || self.atlas.is_unsettled()) {
            self.atlas.survey.again();
        } else {
            self.atlas.survey.rest();
        }
    }
}
