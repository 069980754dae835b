//! What is known of a cluster, and what follows from each change of it: the map, the servers, and what is owed to a
//! slot's next owner.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use futures_util::stream::FuturesUnordered;

use super::super::debts::Debts;
use super::super::in_flight::{Command, Detour, InFlight};
use super::super::strays::Address;
use super::ending::answered;
use super::map::{Map, Member};
use super::members::Members;
use super::survey::Survey;
use super::topology::Topology;
use crate::clock::Clock;
use crate::log;
use crate::node::{Change, Fault, SLOTS, Watch, slot};

/// Something that comes after a while.
pub(super) type Later<T> = FuturesUnordered<Pin<Box<dyn Future<Output = T> + Send>>>;

/// What is known of a cluster.
pub(super) struct Atlas {
    /// Read by every command.
    pub(super) map: Arc<ArcSwap<Map>>,
    /// The servers.
    pub(super) members: Members,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watch: Arc<Watch>,
    /// Who is asked for the map, and when.
    pub(super) survey: Survey,
    /// Deletes that are owed to a slot's next owner.
    pub(super) debts: Debts,
    /// Slots of which servers contradict each other: their owners stay who they were until the servers agree.
    disputed: HashSet<u16>,
    /// Maps that are no more, and may still be read.
    read: Vec<Weak<Map>>,
    /// Former owners that have answered everything, each with the age of the map in which it lost slots.
    pub(super) emptied: Later<(Arc<Member>, u64)>,
}

impl Atlas {
    /// Nobody has a map. Said once, not at every survey until there is one.
    pub(super) fn say_lost(&self, fault: &Fault) {
        let node = self.members.url();
        log::event!(Info, Node, { node: node, fault: fault.to_string() }, "no map of the cluster");
    }

    /// Nothing is known yet.
    pub(super) fn new(
        map: Arc<ArcSwap<Map>>,
        members: Members,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
    ) -> Self {
        let (survey, debts) = (Survey::new(Arc::clone(&clock)), Debts::default());
        let (disputed, read, emptied) = (HashSet::new(), Vec::new(), Later::new());
        Self { map, members, clock, watch, survey, debts, disputed, read, emptied }
    }

    /// A delete that is owed by a server: owed to another one, too, if that has the slot by now or later.
    ///
    /// With the way that it came: the owner may send it here again at once, as long as a slot is on its way to a server
    /// that is gone.
    pub(super) fn owe(&mut self, from: &Address, command: Command, detour: Detour) {
        let map = self.map.load();
        let owner = slot_of(&command).map(|slot| map.owner(slot));
        match owner.filter(|owner| owner.address.as_ref().is_some_and(|address| address != from)) {
            Some(owner) => {
                let mut in_flight = InFlight::unheard(command);
                in_flight.detour = Detour { asking: false, ..detour };
                owner.node.give(in_flight);
            }
            None => drop(self.debts.owe(command, self.clock.now())),
        }
    }

    /// A server says who has a slot: the map has it so if it was that server's by the map, and who it is said to be is
    /// asked for the rest.
    pub(super) fn believe(&mut self, from: &Address, slot: u16, to: &Address) {
        let ours = self.map.load().owner(slot).address.as_ref() == Some(from);
        if !ours || slot >= SLOTS {
            return;
        }
        let to = to.or_host_of(from);
        if !self.disputed.contains(&slot) {
            let owner = self.members.get(&to);
            self.change([(slot, owner)].into_iter());
        }
        self.members.prefer([&to, from]);
        self.survey.want();
    }

    /// A server replied that its cluster is down, or that a slot that is its own by the map is not served.
    pub(super) fn refused(&mut self, from: &Address) {
        self.members.refused(from, self.clock.now());
        self.survey.want();
    }

    /// Whether something is wrong that another survey may find to be over.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.disputed.is_empty() || self.members.misses(&self.map.load(), self.clock.now())
    }

    /// Sets each slot's owner as the servers report it. A slot without a reported owner has none.
    pub(super) fn apply(&mut self, topology: &Topology) {
        let map = self.map.load_full();
        let mut owners = vec![Arc::clone(map.lobby()); usize::from(SLOTS)];
        self.disputed = topology.disputed.iter().flat_map(|(slots, _)| slots.clone()).collect();
        for slot in &self.disputed {
            owners[usize::from(*slot)] = Arc::clone(map.owner(*slot));
        }
        for range in &topology.ranges {
            let owner = self.members.get(&range.owner);
            // Of a range that ends before it begins nothing is taken.
            let slots = owners.get_mut(usize::from(range.first)..=usize::from(range.last));
            slots.into_iter().flatten().for_each(|slot| *slot = Arc::clone(&owner));
        }
        self.change((0..).zip(owners));
    }

    /// Slots have other owners: whoever waits asks there, and what is owed is owed there.
    fn change(&mut self, to: impl Iterator<Item = (u16, Arc<Member>)>) {
        let Some((next, moved)) = self.map.load().moved(to) else { return };
        let next = Arc::new(next);
        let old = self.map.swap(Arc::clone(&next));
        let now = self.clock.now();
        // The first map takes no slot from anybody.
        if !old.servers().is_empty() {
            for server in next.servers() {
                let its = |slot: &u16| Arc::ptr_eq(next.owner(*slot), server);
                self.members.guard(moved.iter().copied().filter(its), server, now);
            }
        }
        next.lobby().node.link.paying();
        for command in self.debts.take() {
            let owner = slot_of(&command).map(|slot| (slot, next.owner(slot)));
            match owner.filter(|(slot, owner)| {
                owner.address.is_some() && moved.binary_search(slot).is_ok()
            }) {
                Some((_, owner)) => owner.node.give(InFlight::unheard(command)),
                None => drop(self.debts.owe(command, now)),
            }
        }
        self.empty(&old, &next);
        // Reads are tracked by the former owner: each is to be made again.
        self.watch.changed(Change::Slots(moved));
    }

    /// Former owners are forgotten once nothing that was asked by an older map is unanswered there.
    fn empty(&mut self, old: &Arc<Map>, next: &Arc<Map>) {
        let read = &mut self.read;
        read.retain(|old| old.strong_count() > 0);
        read.push(Arc::downgrade(old));
        for member in next.losers() {
            let (read, age, present) = (read.clone(), next.age, Arc::clone(&self.map));
            self.emptied.push(Box::pin(async move {
                answered(&read, &member, &present).await;
                (member, age)
            }));
        }
    }

    /// Asks who may know. `all`: whoever may, as those who should did not say.
    pub(super) fn ask(&mut self, all: bool) {
        let map = self.map.load();
        let asked = self.members.asked(&map, all);
        self.survey.begin(asked, !map.servers().is_empty());
    }

    /// A former owner has answered everything that it was asked before a map of this age.
    pub(super) fn forget_former(&mut self, member: &Arc<Member>, age: u64) {
        let next = self.map.load().without_former(member, age);
        self.read.push(Arc::downgrade(&self.map.swap(Arc::new(next))));
    }
}

/// The slot of the command's keys; `None`: it has none.
pub(super) fn slot_of(command: &Command) -> Option<u16> {
    command.key().map(|key| slot(&key))
}
