//! Maps hash slots to servers, as far as known. Every command reads a map, and maps are never changed in place.
//!
//! A slot that moves keeps its former owner for a while. A vote may still be unanswered there, and its key may migrate
//! to the new owner. Therefore deletes are also sent to the former owner, after that vote.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::RedisNode;
use super::super::redirects::Address;
use crate::node::SLOTS;

/// One server of a cluster.
pub(crate) struct Member<N = RedisNode> {
    /// `None` for the lobby, where commands wait whose owner is not known.
    pub(crate) address: Option<Address>,
    /// Its connection.
    pub(crate) node: N,
}

/// A previous owner of a slot, and the age of the map that removed it as the owner.
type Former<N> = (Arc<Member<N>>, u64);

/// The owner of every slot at one time. In the simulation a server is a number.
pub(crate) struct Map<N = RedisNode> {
    /// By slot, as a position in `members`.
    owners: Box<[u16]>,
    /// The lobby, followed by the servers.
    members: Vec<Arc<Member<N>>>,
    /// By slot. Almost always empty.
    former: HashMap<u16, Vec<Former<N>>>,
    /// The number of changes so far.
    pub(crate) age: u64,
}

impl<N> Map<N> {
    /// Creates a map without servers.
    pub(crate) fn new(lobby: Arc<Member<N>>) -> Self {
        let owners = vec![0; usize::from(SLOTS)].into();
        Self { owners, members: vec![lobby], former: HashMap::new(), age: 0 }
    }

    /// Returns the owner of the slot, or the lobby.
    pub(crate) fn owner(&self, slot: u16) -> &Arc<Member<N>> {
        // Every stored position is valid, and the lobby is the first member.
        let place = self.owners.get(usize::from(slot)).map_or(0, |place| usize::from(*place));
        self.members.get(place).unwrap_or(&self.members[0])
    }

    /// Returns the lobby, where commands wait whose owner is not known.
    pub(crate) fn lobby(&self) -> &Arc<Member<N>> {
        &self.members[0]
    }

    /// Returns the servers that have slots.
    pub(crate) fn servers(&self) -> &[Arc<Member<N>>] {
        &self.members[1..]
    }

    /// Whether the server has slots.
    pub(crate) fn has(&self, address: &Address) -> bool {
        self.servers().iter().any(|member| member.address.as_ref() == Some(address))
    }

    /// Returns where to delete a key of the slot: at the owner, and at former owners after their unanswered votes.
    ///
    /// A vote at a former owner may still be run and migrate with the slot. Or it may be redirected to the new owner,
    /// and then the delete is redirected too. Both come from the same map, so each server has only one of the two
    /// roles.
    pub(crate) fn deleted_at(
        &self,
        slot: u16,
    ) -> (&Arc<Member<N>>, impl Iterator<Item = &Arc<Member<N>>>) {
        (self.owner(slot), self.former(slot))
    }

    /// Returns the servers where a vote for the slot may still be unanswered.
    fn former(&self, slot: u16) -> impl Iterator<Item = &Arc<Member<N>>> {
        let former = if self.former.is_empty() { None } else { self.former.get(&slot) };
        former.into_iter().flatten().map(|(member, _)| member)
    }

    /// Returns the next map with these owners, and the slots whose owner changed. Returns `None` if nothing changed.
    pub(crate) fn moved(
        &self,
        to: impl Iterator<Item = (u16, Arc<Member<N>>)>,
    ) -> Option<(Self, Vec<u16>)> {
        let mut next = Self {
            owners: self.owners.clone(),
            members: self.members.clone(),
            former: self.former.clone(),
            age: self.age + 1,
        };
        let mut moved = Vec::new();
        for (slot, member) in to {
            let old = self.owner(slot);
            if !Arc::ptr_eq(old, &member) {
                next.give(slot, &member, old);
                moved.push(slot);
            }
        }
        next.forget_idle();
        (!moved.is_empty()).then_some((next, moved))
    }

    /// Changes the owner of the slot and records the old one as a former owner.
    fn give(&mut self, slot: u16, to: &Arc<Member<N>>, from: &Arc<Member<N>>) {
        let known = self.members.iter().position(|member| Arc::ptr_eq(member, to));
        let place = known.unwrap_or_else(|| {
            self.members.push(Arc::clone(to));
            self.members.len() - 1
        });
        // There are never more servers than slots.
        self.owners[usize::from(slot)] = u16::try_from(place).unwrap_or(0);
        let former = self.former.entry(slot).or_default();
        // The owner runs all its commands in order, even if it lost the slot in between.
        former.retain(|(member, _)| !Arc::ptr_eq(member, to) && !Arc::ptr_eq(member, from));
        if from.address.is_some() {
            former.push((Arc::clone(from), self.age));
        }
    }

    /// Removes servers without slots.
    fn forget_idle(&mut self) {
        let mut places = vec![None; self.members.len()];
        let mut kept = vec![Arc::clone(&self.members[0])];
        places[0] = Some(0);
        for owner in &mut self.owners {
            let place = &mut places[usize::from(*owner)];
            *owner = *place.get_or_insert_with(|| {
                kept.push(Arc::clone(&self.members[usize::from(*owner)]));
                u16::try_from(kept.len() - 1).unwrap_or(0)
            });
        }
        self.members = kept;
    }

    /// Returns each server that lost a slot with this map once.
    pub(crate) fn losers(&self) -> Vec<Arc<Member<N>>> {
        let mut all: Vec<Arc<Member<N>>> = Vec::new();
        for (loser, _) in self.former.values().flatten().filter(|(_, age)| *age == self.age) {
            if !all.iter().any(|member| Arc::ptr_eq(member, loser)) {
                all.push(Arc::clone(loser));
            }
        }
        all
    }

    /// Returns the map without a former owner that lost its slots at this age, because it has replied to all earlier
    /// commands.
    pub(crate) fn without_former(&self, member: &Arc<Member<N>>, age: u64) -> Self {
        let mut former = self.former.clone();
        former.retain(|_, list| {
            list.retain(|(former, lost)| !Arc::ptr_eq(former, member) || *lost != age);
            !list.is_empty()
        });
        let (owners, members) = (self.owners.clone(), self.members.clone());
        Self { owners, members, former, age: self.age + 1 }
    }
}
