//! Maps hash slots to their known servers. Every command reads a map. A map is immutable, and a change creates a new
//! one.

use std::sync::Arc;

use super::redirects::ServerAddress;
use crate::node::SLOTS;
use crate::node::redis::RedisNode;

/// One server of a cluster.
pub(crate) struct Member<N = RedisNode> {
    /// `None` for the placeholder, which gets the commands whose owner is not known.
    pub(crate) address: Option<ServerAddress>,
    /// Its connection.
    pub(crate) node: N,
}

/// The owner of every slot at one time. In the simulation a server is a number.
pub(crate) struct Map<N = RedisNode> {
    /// By slot, as a position in `members`.
    owners: Box<[u16]>,
    /// The placeholder without a server, followed by the servers.
    members: Vec<Arc<Member<N>>>,
}

impl<N> Map<N> {
    /// Creates a map without servers.
    pub(crate) fn new(unassigned: Arc<Member<N>>) -> Self {
        let owners = vec![0; usize::from(SLOTS)].into();
        Self { owners, members: vec![unassigned] }
    }

    /// Returns the owner of the slot, or the placeholder if the owner is not known.
    pub(crate) fn owner(&self, slot: u16) -> &Arc<Member<N>> {
        // Every stored position is valid, and the placeholder is the first member.
        let place = self.owners.get(usize::from(slot)).map_or(0, |place| usize::from(*place));
        self.members.get(place).unwrap_or(&self.members[0])
    }

    /// Returns the placeholder, which gets the commands whose owner is not known.
    pub(crate) fn unassigned(&self) -> &Arc<Member<N>> {
        &self.members[0]
    }

    /// Returns the servers that have slots.
    pub(crate) fn servers(&self) -> &[Arc<Member<N>>] {
        &self.members[1..]
    }

    /// Whether the server has slots.
    pub(crate) fn has(&self, address: &ServerAddress) -> bool {
        self.servers().iter().any(|member| member.address.as_ref() == Some(address))
    }

    /// Returns the next map with these owners, and the slots whose owner changed. Returns `None` if nothing changed.
    pub(crate) fn moved(
        &self,
        to: impl Iterator<Item = (u16, Arc<Member<N>>)>,
    ) -> Option<(Self, Vec<u16>)> {
        let mut next = Self { owners: self.owners.clone(), members: self.members.clone() };
        let mut moved = Vec::new();
        for (slot, member) in to {
            if !Arc::ptr_eq(self.owner(slot), &member) {
                next.give(slot, &member);
                moved.push(slot);
            }
        }
        next.forget_idle();
        (!moved.is_empty()).then_some((next, moved))
    }

    /// Changes the owner of the slot.
    fn give(&mut self, slot: u16, to: &Arc<Member<N>>) {
        let known = self.members.iter().position(|member| Arc::ptr_eq(member, to));
        let place = known.unwrap_or_else(|| {
            self.members.push(Arc::clone(to));
            self.members.len() - 1
        });
        // There are never more servers than slots.
        self.owners[usize::from(slot)] = u16::try_from(place).unwrap_or(0);
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
}
