//! A cluster's servers: the owner of the slot, and how it moves between them.

use crate::node::SLOTS;

use super::clock::Time;
use super::net::server_port;
use super::resp::Reply;
use super::server::Server;
use super::world::{Event, MS, World};

/// A server's view of the slot. Other servers are given by their index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Slot {
    #[default]
    Here,
    /// Its keys are being migrated to that server.
    Migrating(usize),
    /// Its keys are being imported from that server.
    Importing(usize),
    /// That server owns it.
    Elsewhere(usize),
}

impl Server {
    /// The redirect for a command that this server does not serve, by the rules of `getNodeByQuery`.
    pub(super) fn redirect(&mut self, keys: &[&str], asks: bool, now: Time) -> Option<Redirect> {
        if keys.is_empty() {
            return None;
        }
        let ms = self.clock_us(now) / 1000;
        let exists = |key: &&&str| self.keys.get(**key).is_some_and(|(_, end)| *end > ms);
        if self.cut_off {
            return Some(Redirect::Down);
        }
        let missing = keys.len() - keys.iter().filter(exists).count();
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

    /// The owner of the slot and its epoch, as seen by this server at index `here`.
    pub(super) fn sees(&self, here: usize) -> (usize, u64) {
        match self.slot {
            Slot::Here | Slot::Migrating(_) => (here, self.epoch),
            Slot::Importing(from) | Slot::Elsewhere(from) => (from, self.epoch),
        }
    }
}

/// The next server for a command in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    Moved(usize),
    Ask(usize),
    TryAgain,
    /// The server is cut off from its cluster.
    Down,
}

impl Redirect {
    /// The error of the server.
    pub(super) fn text(self, slot: u16) -> String {
        match self {
            Self::Moved(to) => format!("MOVED {slot} 127.0.0.1:{}", server_port(to, 0)),
            Self::Ask(to) => format!("ASK {slot} 127.0.0.1:{}", server_port(to, 0)),
            Self::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot".to_owned(),
            Self::Down => "CLUSTERDOWN The cluster is down".to_owned(),
        }
    }
}

/// A slot that moves so soon after another move may overtake a redirected delete.
const NEXT_MOVE_DELAY: Time = 1_000 * MS;

/// The slots that a cluster reports. A map of all slots takes most of the time of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slots {
    /// Those of the locks.
    Locks,
    /// All, and only those of the locks move.
    Servers,
    /// All, and they move together.
    Cluster,
}

/// The steps of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The keys move: first some of them, then all.
    Some,
    All,
    /// The new owner learns that it has the slot.
    Assigned,
    /// The old owner and all others learn it too.
    Over,
    /// The replaced owner notices that it is cut off.
    CutOff,
    /// It returns as a replica of the new owner.
    Back,
}

impl World {
    /// Number of nodes. A cluster is one node with several servers.
    pub(super) fn nodes(&self) -> usize {
        self.servers.len() / self.shards
    }

    /// The server that has the slot.
    pub(super) fn place_of(&self, node: usize) -> usize {
        let places = (node..self.servers.len()).step_by(self.nodes());
        let has =
            |place: &usize| matches!(self.servers[*place].slot, Slot::Here | Slot::Migrating(_));
        places.filter(has).max_by_key(|place| self.servers[*place].epoch).unwrap_or(node)
    }

    /// Starts a migration of the slot, unless one is in progress.
    pub(super) fn migrate(&mut self, node: usize, shard: usize, length: Time) {
        let (from, to) = (self.place_of(node), node + shard * self.nodes());
        if from == to || self.settled[node] == Time::MAX {
            return;
        }
        if self.now < self.settled[node] + NEXT_MOVE_DELAY {
            self.moved_again[node] = self.now;
        }
        self.settled[node] = Time::MAX;
        self.servers[to].slot = Slot::Importing(from);
        self.servers[from].slot = Slot::Migrating(to);
        self.stage(Stage::Some, from, to, length);
    }

    /// Promotes a replica of the slot's owner. The owner is cut off from the others, and the replica may lack its last
    /// writes. The owner continues for `stale`, refuses every request until it returns after `cut`, and loses the
    /// grants that it made meanwhile.
    pub(super) fn fail_over(&mut self, node: usize, shard: usize, stale: Time, cut: Time) {
        let (from, to) = (self.place_of(node), node + shard * self.nodes());
        if from == to || self.settled[node] == Time::MAX {
            return;
        }
        self.settled[node] = Time::MAX;
        let source = &mut self.servers[from];
        let kept = source.replica.take();
        let keys = kept.unwrap_or_else(|| source.keys.clone());
        let (epoch, now) = (source.epoch + 1, self.now);
        for place in (node..self.servers.len()).step_by(self.nodes()).filter(|at| *at != from) {
            (self.servers[place].slot, self.servers[place].epoch) = (Slot::Elsewhere(to), epoch);
        }
        let server = &mut self.servers[to];
        (server.slot, server.switched) = (Slot::Here, Some(now));
        server.keys = keys;
        self.at(now + stale, Event::Migrates { stage: Stage::CutOff, from, to, length: cut });
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
                self.stage(if some { Stage::All } else { Stage::Assigned }, from, to, length);
            }
            Stage::Assigned => {
                // Keys that arrived meanwhile are included. The old owner can receive no more, because it redirects
                // every request with ASK.
                self.move_keys(from, to, false);
                self.servers[to].slot = Slot::Here;
                self.servers[to].epoch = self.servers[from].epoch + 1;
                let latency = self.latency;
                self.stage(Stage::Over, from, to, latency * 3);
            }
            Stage::Over => {
                let node = from % self.nodes();
                for place in (node..self.servers.len()).step_by(self.nodes()) {
                    if place != to {
                        self.servers[place].slot = Slot::Elsewhere(to);
                        self.servers[place].epoch = self.servers[to].epoch;
                    }
                }
                self.settled[node] = self.now;
            }
            Stage::CutOff => {
                self.servers[from].cut_off = true;
                let node = from % self.nodes();
                self.settled[node] = self.now;
                let back = Event::Migrates { stage: Stage::Back, from, to, length };
                self.at(self.now + length, back);
            }
            Stage::Back => {
                let epoch = self.servers[to].epoch;
                let server = &mut self.servers[from];
                (server.slot, server.epoch, server.cut_off) = (Slot::Elsewhere(to), epoch, false);
                server.lose_data();
            }
        }
    }

    /// `MIGRATE`: moves each key with its remaining TTL. With `some`, a random part of the keys moves.
    fn move_keys(&mut self, from: usize, to: usize, some: bool) {
        let source = &mut self.servers[from];
        let keys: Vec<String> = source.keys.keys().cloned().collect();
        let mut pushes = Vec::new();
        for key in keys {
            if some && self.rng.bool() {
                continue;
            }
            if let Some(kept) = self.servers[from].keys.remove(&key) {
                self.servers[to].keys.insert(key.clone(), kept);
                pushes.extend(self.servers[from].changed(std::slice::from_ref(&key), None));
            }
        }
        self.send_pushes(from, pushes);
    }
}

/// What a server reports about its cluster.
impl World {
    /// The owner of each slot as this server sees it. The slots of the locks have the same one. The others are missing,
    /// never move, or have the same owner.
    pub(super) fn cluster_slots(&self, place: usize) -> Reply {
        let (owner, _) = self.servers[place].sees(place);
        let row = |first: i64, last: i64, owner: usize| {
            let port = Reply::Int(i64::from(server_port(owner, 0)));
            let server = vec![Reply::bulk("127.0.0.1"), port, Reply::bulk(id(owner))];
            Reply::List(vec![Reply::Int(first), Reply::Int(last), Reply::List(server)])
        };
        let end = i64::from(SLOTS);
        if self.slots_of == Slots::Cluster {
            return Reply::List(vec![row(0, end - 1, owner)]);
        }
        let (mut rows, mut first) = (Vec::new(), 0);
        let others = (place % self.nodes()..self.servers.len()).step_by(self.nodes()).cycle();
        for (slot, other) in self.slots.iter().copied().chain([end]).zip(others) {
            if first < slot && self.slots_of == Slots::Servers {
                rows.push(row(first, slot - 1, other));
            }
            if slot < end {
                rows.push(row(slot, slot, owner));
            }
            first = slot + 1;
        }
        Reply::List(rows)
    }

    pub(super) fn cluster_nodes(&self, place: usize) -> Reply {
        let (owner, epoch) = self.servers[place].sees(place);
        let line = |server: usize| {
            let (port, id) = (server_port(server, 0), id(server));
            let flags = if server == place { "myself,master" } else { "master" };
            let epoch = if server == owner { epoch } else { 0 };
            format!("{id} 127.0.0.1:{port}@1 {flags} - 0 0 {epoch} connected\n")
        };
        let places = (place % self.nodes()..self.servers.len()).step_by(self.nodes());
        Reply::bulk(places.map(line).collect::<String>())
    }
}

/// The ID of a cluster's server.
fn id(place: usize) -> String {
    format!("{place:040}")
}
