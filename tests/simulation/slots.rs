//! A cluster's servers: who has the slot, and how it moves from one to another.

use super::clock::Time;
use super::request::{Redirect, Request};
use super::server::Server;
use super::world::{Event, MS, World};

/// What a server knows of the slot; the others are places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Slot {
    #[default]
    Here,
    /// Its keys are going there.
    Migrating(usize),
    /// Its keys are coming from there.
    Importing(usize),
    /// It is there.
    Elsewhere(usize),
}

impl Server {
    fn has(&self, key: &String) -> bool {
        self.keys.contains_key(key) || self.fences.contains_key(key)
    }

    /// Where a request goes that this server does not serve; the rules of `getNodeByQuery`.
    pub(super) fn redirect(
        &mut self,
        request: &Request,
        asks: bool,
        now: Time,
    ) -> Option<Redirect> {
        let told = self.expire(now);
        debug_assert!(told.len() < usize::MAX);
        let keys: Vec<&String> = match request {
            Request::Force { keys } => keys.iter().collect(),
            Request::Release { claim, .. } => claim.keys.iter().collect(),
            _ => request.keeps()?.keys.iter().chain(request.keeps()?.fences.iter()).collect(),
        };
        let missing = keys.iter().filter(|key| !self.has(key)).count();
        match self.slot {
            Slot::Here => None,
            Slot::Elsewhere(to) => Some(Redirect::Moved(to)),
            Slot::Importing(from) if !asks => Some(Redirect::Moved(from)),
            Slot::Importing(_) => (keys.len() > 1 && missing > 0).then_some(Redirect::TryAgain),
            Slot::Migrating(_) if missing == 0 => None,
            Slot::Migrating(_) if missing < keys.len() => Some(Redirect::TryAgain),
            Slot::Migrating(to) => Some(Redirect::Ask(to)),
        }
    }

    /// Who has the slot, as this server, which is there, sees it.
    pub(super) fn sees(&self, here: usize) -> usize {
        match self.slot {
            Slot::Here | Slot::Migrating(_) => here,
            Slot::Importing(from) | Slot::Elsewhere(from) => from,
        }
    }
}

/// A migration's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The keys go over, first some, then all.
    Some,
    All,
    /// The new owner is told.
    Told,
    /// The old one and the others, too.
    Over,
}

impl World {
    /// The server that has the slot.
    pub(super) fn place_of(&self, node: usize) -> usize {
        let places = (node..self.servers.len()).step_by(self.nodes());
        let has =
            |place: &usize| matches!(self.servers[*place].slot, Slot::Here | Slot::Migrating(_));
        places.clone().find(has).unwrap_or(node)
    }

    /// Begins to move the slot, if it is not on its way already.
    pub(super) fn migrate(&mut self, node: usize, shard: usize, length: Time) {
        let (from, to) = (self.place_of(node), node + shard * self.nodes());
        if from == to || self.settled[node] == Time::MAX {
            return;
        }
        self.settled[node] = Time::MAX;
        self.servers[to].slot = Slot::Importing(from);
        self.servers[from].slot = Slot::Migrating(to);
        self.stage(Stage::Some, from, to, length);
    }

    fn stage(&mut self, stage: Stage, from: usize, to: usize, length: Time) {
        let at = self.now + self.rng.u64(0..=length / 3);
        self.at(at, Event::Migrates { stage, from, to, length });
    }

    pub(super) fn migrates(&mut self, stage: Stage, from: usize, to: usize, length: Time) {
        let paused = self.servers[from].paused_until.max(self.servers[to].paused_until);
        if self.now < paused {
            return self.at(paused + MS, Event::Migrates { stage, from, to, length });
        }
        match stage {
            Stage::Some | Stage::All => {
                let some = stage == Stage::Some;
                self.move_keys(from, to, some);
                self.stage(if some { Stage::All } else { Stage::Told }, from, to, length);
            }
            Stage::Told => {
                // What came meanwhile is there; nothing more can come to the old one, which asks the new one for all.
                self.move_keys(from, to, false);
                self.servers[to].slot = Slot::Here;
                let latency = self.latency;
                self.stage(Stage::Over, from, to, latency * 3);
            }
            Stage::Over => {
                let node = from % self.nodes();
                for place in (node..self.servers.len()).step_by(self.nodes()) {
                    if place != to {
                        self.servers[place].slot = Slot::Elsewhere(to);
                    }
                }
                self.settled[node] = self.now;
            }
        }
    }

    /// `MIGRATE`: each key with what is left of it; `some`: perhaps.
    fn move_keys(&mut self, from: usize, to: usize, some: bool) {
        let source = &mut self.servers[from];
        let keys: Vec<String> = source.keys.keys().chain(source.fences.keys()).cloned().collect();
        let mut told = Vec::new();
        for key in keys {
            if some && self.rng.bool() {
                continue;
            }
            if let Some(kept) = self.servers[from].keys.remove(&key) {
                self.servers[to].keys.insert(key.clone(), kept);
                told.extend(self.servers[from].changed(std::slice::from_ref(&key), None));
            }
            if let Some(kept) = self.servers[from].fences.remove(&key) {
                self.servers[to].fences.insert(key, kept);
            }
        }
        self.tell(from, told);
    }
}
