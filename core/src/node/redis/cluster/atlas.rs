//! Keeps the known state of a cluster and applies changes to it.
//!
//! The state consists of the map, the servers, and the pending deletes for the next owner of a slot.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use futures_util::stream::FuturesUnordered;

use super::super::protocol::{Command, Detour, InFlight, PendingDeletes, UnsentVotes};
use super::super::strays::Address;
use super::ending::answered;
use super::map::{Map, Member};
use super::members::Members;
use super::survey::Survey;
use super::topology::Topology;
use crate::clock::Clock;
use crate::log;
use crate::node::{Change, Fault, SLOTS, Watch, slot};

/// Futures that complete later.
pub(super) type Later<T> = FuturesUnordered<Pin<Box<dyn Future<Output = T> + Send>>>;

/// The known state of a cluster.
pub(super) struct Atlas {
    /// Read by every command.
    pub(super) map: Arc<ArcSwap<Map>>,
    /// The servers.
    pub(super) members: Members,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watch: Arc<Watch>,
    /// Determines when to request the map, and from which servers.
    pub(super) survey: Survey,
    /// Pending deletes for the next owner of a slot.
    pub(super) pending: PendingDeletes,
    /// Votes that had no owner.
    pub(super) unsent_votes: UnsentVotes,
    /// Slots for which servers report different owners. Their owners stay the same until the servers agree.
    disputed: HashSet<u16>,
    /// Replaced maps that commands may still read.
    read: Vec<Weak<Map>>,
    /// Former owners that have replied to every command, each with the age of the map in which it lost slots.
    pub(super) emptied: Later<(Arc<Member>, u64)>,
}

impl Atlas {
    /// Logs that no server returned a map. Called once, not for every survey.
    pub(super) fn say_lost(&self, fault: &Fault) {
        let node = self.members.url();
        log::event!(Info, Node, { node: node, fault: fault.to_string() }, "cannot read the cluster's slots");
    }

    /// Creates an empty state.
    pub(super) fn new(
        map: Arc<ArcSwap<Map>>,
        members: Members,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
    ) -> Self {
        let survey = Survey::new(Arc::clone(&clock));
        let pending = PendingDeletes::new(Arc::clone(&map.load().lobby().node.link), None);
        let unsent_votes = UnsentVotes::default();
        let (disputed, read, emptied) = (HashSet::new(), Vec::new(), Later::new());
        Self { map, members, clock, watch, survey, pending, unsent_votes, disputed, read, emptied }
    }

    /// Records a pending delete of a server. Sends it to the slot's current owner if that is another server. Otherwise
    /// the next owner gets it.
    ///
    /// The delete keeps its detour. While a slot migrates to a server that is gone, the owner may redirect it again
    /// immediately.
    pub(super) fn owe(&mut self, from: &Address, command: Command, detour: Detour) {
        let map = self.map.load();
        let owner = slot_of(&command).map(|slot| map.owner(slot));
        match owner.filter(|owner| owner.address.as_ref().is_some_and(|address| address != from)) {
            Some(owner) => {
                let mut in_flight = InFlight::unheard(command);
                in_flight.detour = Detour { asking: false, ..detour };
                owner.node.give(in_flight);
            }
            None if self.unsent_votes.has_vote_of(&command) => {}
            None => drop(self.pending.add(command, self.clock.now())),
        }
    }

    /// Applies a redirect. The map changes only if it names the redirecting server as the owner. A survey then asks the
    /// reported owner for the rest.
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

    /// Records that a server replied that its cluster is down, or that it does not serve a slot that it owns by the
    /// map.
    pub(super) fn refused(&mut self, from: &Address) {
        self.members.refused(from, self.clock.now());
        self.survey.want();
    }

    /// Whether a problem exists that a later survey may find resolved.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.disputed.is_empty() || self.members.misses(&self.map.load(), self.clock.now())
    }

    /// Sets the reported owner of each slot. A slot without a reported owner has none.
    pub(super) fn apply(&mut self, topology: &Topology) {
        let map = self.map.load_full();
        let mut owners = vec![Arc::clone(map.lobby()); usize::from(SLOTS)];
        self.disputed = topology.disputed.iter().flat_map(|(slots, _)| slots.clone()).collect();
        for slot in &self.disputed {
            owners[usize::from(*slot)] = Arc::clone(map.owner(*slot));
        }
        for range in &topology.ranges {
            let owner = self.members.get(&range.owner);
            // Ignores a range that ends before it begins.
            let slots = owners.get_mut(usize::from(range.first)..=usize::from(range.last));
            slots.into_iter().flatten().for_each(|slot| *slot = Arc::clone(&owner));
        }
        self.change((0..).zip(owners));
    }

    /// Changes the owners of slots. Waiters then ask the new owners, which also get the pending deletes.
    fn change(&mut self, to: impl Iterator<Item = (u16, Arc<Member>)>) {
        let Some((next, moved)) = self.map.load().moved(to) else { return };
        let next = Arc::new(next);
        let old = self.map.swap(Arc::clone(&next));
        let now = self.clock.now();
        // With the first map, no slot changes its owner.
        if !old.servers().is_empty() {
            for server in next.servers() {
                let its = |slot: &u16| Arc::ptr_eq(next.owner(*slot), server);
                self.members.guard(moved.iter().copied().filter(its), server, now);
            }
        }
        next.lobby().node.link.paying();
        for command in self.pending.take() {
            let owner = slot_of(&command).map(|slot| (slot, next.owner(slot)));
            match owner.filter(|(slot, owner)| {
                owner.address.is_some() && moved.binary_search(slot).is_ok()
            }) {
                Some((_, owner)) => owner.node.give(InFlight::unheard(command)),
                None => drop(self.pending.add(command, now)),
            }
        }
        self.empty(&old, &next);
        // The former owners tracked the reads, so the reads must be repeated.
        self.watch.changed(Change::Slots(moved));
    }

    /// Forgets former owners once they have replied to all commands that were sent by older maps.
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

    /// Starts a survey. With `all`, it asks every server that may know, because the preferred ones did not reply.
    pub(super) fn ask(&mut self, all: bool) {
        let map = self.map.load();
        let asked = self.members.asked(&map, all);
        self.survey.begin(asked, !map.servers().is_empty());
    }

    /// Forgets a former owner that has replied to all commands sent before the map of this age.
    pub(super) fn forget_former(&mut self, member: &Arc<Member>, age: u64) {
        let next = self.map.load().without_former(member, age);
        self.read.push(Arc::downgrade(&self.map.swap(Arc::new(next))));
    }
}

/// Returns the slot of the command's keys, or `None` if it has no keys.
pub(super) fn slot_of(command: &Command) -> Option<u16> {
    command.key().map(|key| slot(&key))
}
