//! Which server has which slot, as far as is known: read by every command, and never changed in place.
//!
//! A slot that changes hands keeps its former owner for a while. A vote may still be unanswered there, and what it makes
//! may come over to the new owner: whoever deletes does it behind that vote, too.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::RedisNode;
use super::super::strays::Address;
use crate::node::SLOTS;

/// One server of a cluster.
pub(crate) struct Member<N = RedisNode> {
    /// `None`: the lobby, where commands wait whose owner is not known.
    pub(crate) address: Option<Address>,
    /// Its connection.
    pub(crate) node: N,
}

/// A slot's owner before this one.
struct Former<N> {
    member: Arc<Member<N>>,
    /// The age of the map in which it was the owner no more.
    since: u64,
}

impl<N> Clone for Former<N> {
    fn clone(&self) -> Self {
        Self { member: Arc::clone(&self.member), since: self.since }
    }
}

/// Every slot's owner, at one moment. In the simulation a server is a number.
pub(crate) struct Map<N = RedisNode> {
    /// By slot: a place in `members`.
    owners: Box<[u16]>,
    /// The lobby, then the servers.
    members: Vec<Arc<Member<N>>>,
    /// By slot. Nearly always empty.
    former: HashMap<u16, Vec<Former<N>>>,
    /// Counts its changes.
    pub(crate) age: u64,
}

impl<N> Map<N> {
    /// Nothing is known yet.
    pub(crate) fn new(lobby: Arc<Member<N>>) -> Self {
        let owners = vec![0; usize::from(SLOTS)].into();
        Self { owners, members: vec![lobby], former: HashMap::new(), age: 0 }
    }

    /// Who has the slot, or the lobby.
    pub(crate) fn owner(&self, slot: u16) -> &Arc<Member<N>> {
        // Every place in the list is one of a member, and the lobby is the first.
        let place = self.owners.get(usize::from(slot)).map_or(0, |place| usize::from(*place));
        self.members.get(place).unwrap_or(&self.members[0])
    }

    /// Where commands wait whose owner is not known.
    pub(crate) fn lobby(&self) -> &Arc<Member<N>> {
        &self.members[0]
    }

    /// The servers that have slots.
    pub(crate) fn servers(&self) -> &[Arc<Member<N>>] {
        &self.members[1..]
    }

    /// Whether it has slots.
    pub(crate) fn has(&self, address: &Address) -> bool {
        self.servers().iter().any(|member| member.address.as_ref() == Some(address))
    }

    /// Where a key of the slot is deleted: at the owner, and behind the votes that are unanswered where it was before.
    ///
    /// What was asked there may be carried out yet, and come over with the slot; or be answered by the way to the
    /// new owner, to which the delete goes once more, then. By one map: each server is one or the other.
    pub(crate) fn deleted_at(
        &self,
        slot: u16,
    ) -> (&Arc<Member<N>>, impl Iterator<Item = &Arc<Member<N>>>) {
        (self.owner(slot), self.former(slot))
    }

    /// Servers at which a vote for the slot may still be unanswered.
    fn former(&self, slot: u16) -> impl Iterator<Item = &Arc<Member<N>>> {
        let former = if self.former.is_empty() { None } else { self.former.get(&slot) };
        former.into_iter().flatten().map(|former| &former.member)
    }

    /// The next map, in which these slots have these owners, and the slots that had others; `None`: it is the same.
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

    /// The slot is another one's from now on, and its owner so far one of the former ones.
    fn give(&mut self, slot: u16, to: &Arc<Member<N>>, from: &Arc<Member<N>>) {
        let known = self.members.iter().position(|member| Arc::ptr_eq(member, to));
        let place = known.unwrap_or_else(|| {
            self.members.push(Arc::clone(to));
            self.members.len() - 1
        });
        // More servers than slots there are not.
        self.owners[usize::from(slot)] = u16::try_from(place).unwrap_or(0);
        let former = self.former.entry(slot).or_default();
        // What was asked of the owner is in order there, however often it lost the slot meanwhile.
        former.retain(|former| {
            !Arc::ptr_eq(&former.member, to) && !Arc::ptr_eq(&former.member, from)
        });
        if from.address.is_some() {
            former.push(Former { member: Arc::clone(from), since: self.age });
        }
    }

    /// Servers without slots are not kept here.
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

    /// Who lost a slot as this map came to be: each once.
    pub(crate) fn losers(&self) -> Vec<Arc<Member<N>>> {
        let mut all: Vec<Arc<Member<N>>> = Vec::new();
        for former in self.former.values().flatten().filter(|former| former.since == self.age) {
            if !all.iter().any(|member| Arc::ptr_eq(member, &former.member)) {
                all.push(Arc::clone(&former.member));
            }
        }
        all
    }

    /// The map without who lost slots in one of this age: all that was asked of it until then is answered.
    pub(crate) fn without_former(&self, member: &Arc<Member<N>>, age: u64) -> Self {
        let mut former = self.former.clone();
        former.retain(|_, list| {
            list.retain(|former| !Arc::ptr_eq(&former.member, member) || former.since != age);
            !list.is_empty()
        });
        let (owners, members) = (self.owners.clone(), self.members.clone());
        Self { owners, members, former, age: self.age + 1 }
    }
}
