//! The task of a cluster: where commands go on that a server could not serve, and the map by which all others go.
//!
//! Nothing that a server answers as it should passes through here. What does is a command with whoever waits for it: the
//! order of one key's votes and deletes holds because a vote that nobody listens to is never sent on (a delete is sent
//! only then), and because a delete goes behind the votes of former owners, too ([`super::map`]).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::super::in_flight::InFlight;
use super::super::strays::{Address, Redirect, Stray};
use super::atlas::{Atlas, Later, slot_of};
use super::ending::{Ending, ended, over};
use super::onward::{MOMENT, Onward, onward, pause, rested};
use super::survey::Found;
use crate::clock::Instant;
use crate::log;
use crate::node::Fault;

/// What was not found a moment ago is not looked for again at each command.
const CALM: Duration = Duration::from_millis(200);

/// The task's own.
pub(super) struct Router {
    /// Commands whose owner is not known.
    lobby: UnboundedReceiver<InFlight>,
    /// What connections could not get done.
    strays: UnboundedReceiver<(Address, Stray)>,
    /// What is known of the cluster.
    atlas: Atlas,
    /// Commands that wait for the survey.
    waiting: Vec<InFlight>,
    /// Commands that wait for a moment.
    delayed: Later<InFlight>,
    /// Why the last survey found nothing, and when.
    failed: Option<(Fault, Instant)>,
    /// The client is gone: what is under way ends.
    ending: Option<Ending>,
}

impl Router {
    /// Nothing was asked yet.
    pub(super) fn new(
        lobby: UnboundedReceiver<InFlight>,
        strays: UnboundedReceiver<(Address, Stray)>,
        atlas: Atlas,
    ) -> Self {
        let (waiting, delayed) = (Vec::new(), Later::new());
        Self { lobby, strays, atlas, waiting, delayed, failed: None, ending: None }
    }

    /// Serves until the client is gone and nothing is owed. Should it panic, it goes on with the next event.
    pub(super) async fn run(mut self, mut client: oneshot::Receiver<()>) {
        while AssertUnwindSafe(self.serve(&mut client)).catch_unwind().await.is_err() {
            log::event!(
                Error, Node, { node: self.atlas.members.url() },
                "the cluster's own task panicked, and goes on"
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
                // Its sender is dropped with the client's node.
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

    /// The client is gone: what its servers were asked is waited for, deletes above all.
    fn end(&mut self) {
        let members =
            self.atlas.members.all().chain([Arc::clone(self.atlas.map.load().lobby())]).collect();
        self.ending = Some(Box::pin(ended(members, Arc::clone(&self.atlas.clock))));
    }

    /// To the slot's owner, or into the waiting room.
    fn place(&mut self, mut in_flight: InFlight) {
        let Some(slot) = slot_of(&in_flight.command) else {
            // Of no key: asked to know that all before it is done, and it is.
            let _ = in_flight.answer.send(Ok(redis::Value::Okay));
            return;
        };
        if in_flight.is_unwanted() {
            self.atlas.debts.never_sent(&in_flight.command);
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
                // By the time that it goes on, its own delete may have gone to the owner already.
                in_flight.detour.hops += 1;
                self.waiting.push(in_flight);
                if !self.atlas.survey.is_running() {
                    self.atlas.survey.want_now();
                }
            }
        }
    }

    /// What can go nowhere: a delete is owed to whoever will have the slot.
    fn refuse(&mut self, in_flight: InFlight, fault: &Fault) {
        self.atlas.debts.never_sent(&in_flight.command);
        if let Some(until) = self.atlas.debts.owe(in_flight.command, self.atlas.clock.now()) {
            self.atlas.map.load().lobby().node.link.owe(until);
        }
        let _ = in_flight.answer.send(Err(fault.clone()));
    }

    /// What a connection has to say.
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

    /// A command that `from` did not serve.
    fn redirect(&mut self, from: &Address, mut in_flight: InFlight, redirect: Redirect) {
        let now = self.atlas.clock.now();
        let listened = (in_flight.command.timeout, !in_flight.answer.is_closed());
        let purpose = &mut in_flight.command.purpose;
        let asked = matches!(redirect, Redirect::Ask(_));
        let onward = onward(&mut in_flight.detour, purpose, listened, asked, now);
        match onward {
            Onward::Dropped => return,
            Onward::Late => {
                let why = "its servers sent it from one to the other until its time was over";
                let _ = in_flight.answer.send(Err(Fault::new(why)));
                return;
            }
            Onward::AtOnce | Onward::Later => {}
        }
        let to = match redirect {
            // To the owner by the map, which has a guard where that is new: `to` may have lost the slot again.
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

    /// What a survey came to.
    fn found(&mut self, found: Found) {
        let waiting = std::mem::take(&mut self.waiting);
        match found {
            Ok(topology) => {
                self.failed = None;
                self.atlas.apply(&topology);
                self.atlas.members.learn(topology, &self.atlas.map.load(), self.atlas.clock.now());
                self.atlas.debts.forget_expired(self.atlas.clock.now());
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
