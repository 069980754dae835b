//! The owner of each slot, as commands read it.

use std::sync::Arc;

use crate::node::redis::io::endpoint::ServerAddress;
use crate::node::redis::server::RedisNode;
use crate::node::{SLOTS, slot};

/// How many keys are tried to find one for each server.
const MAX_TRIED: usize = 4096;

/// One server of a cluster, or the placeholder, which gets the commands whose owner is not known.
pub(crate) struct Member {
    pub(crate) address: ServerAddress,
    pub(crate) node: RedisNode,
}

/// The owner of every slot at one time. Every command reads a map. It is immutable, and a change creates a new one.
pub(crate) struct Map {
    /// By slot. The placeholder stands for an owner that is not known.
    owners: Box<[Arc<Member>]>,
    unassigned: Arc<Member>,
    /// Each owner once.
    servers: Vec<Arc<Member>>,
}

impl Map {
    pub(crate) fn new(unassigned: Arc<Member>) -> Self {
        let owners = std::iter::repeat_n(&unassigned, usize::from(SLOTS)).map(Arc::clone);
        Self { owners: owners.collect(), unassigned, servers: Vec::new() }
    }

    /// Returns the owner of the slot, or the placeholder if the owner is not known.
    pub(crate) fn owner(&self, slot: u16) -> &Arc<Member> {
        self.owners.get(usize::from(slot)).unwrap_or(&self.unassigned)
    }

    pub(crate) fn known_owner(&self, slot: u16) -> Option<&Arc<Member>> {
        Some(self.owner(slot)).filter(|owner| !Arc::ptr_eq(owner, &self.unassigned))
    }

    /// Returns the placeholder, which gets the commands whose owner is not known.
    pub(crate) fn unassigned(&self) -> &Arc<Member> {
        &self.unassigned
    }

    pub(crate) fn servers(&self) -> &[Arc<Member>] {
        &self.servers
    }

    /// Returns each server with a key in one of its slots, which begins with `prefix`. Servers with very few slots may
    /// be left out.
    pub(crate) fn key_of_each_server(&self, prefix: &str) -> Vec<(Arc<Member>, String)> {
        let mut found: Vec<(Arc<Member>, String)> = Vec::new();
        for number in 0..MAX_TRIED {
            if found.len() == self.servers.len() {
                break;
            }
            let key = format!("{prefix}{{{number}}}");
            if let Some(owner) = self.known_owner(slot(&key))
                && !found.iter().any(|(known, _)| Arc::ptr_eq(known, owner))
            {
                found.push((Arc::clone(owner), key));
            }
        }
        found
    }

    pub(crate) fn has(&self, address: &ServerAddress) -> bool {
        self.servers.iter().any(|member| member.address == *address)
    }

    /// Returns the next map with these owners, and the slots whose owner changed. Returns `None` if nothing changed.
    pub(crate) fn moved(
        &self,
        to: impl Iterator<Item = (u16, Arc<Member>)>,
    ) -> Option<(Self, Vec<u16>)> {
        let (mut owners, mut moved, mut servers) = (self.owners.clone(), Vec::new(), Vec::new());
        for (slot, member) in to {
            let owner = owners.get_mut(usize::from(slot));
            if let Some(owner) = owner.filter(|owner| !Arc::ptr_eq(owner, &member)) {
                *owner = member;
                moved.push(slot);
            }
        }
        for owner in &owners {
            // Most slots have the owner of the slot before.
            let is_owner = |server: &Arc<_>| Arc::ptr_eq(server, owner);
            if !is_owner(&self.unassigned) && !servers.iter().rev().any(is_owner) {
                servers.push(Arc::clone(owner));
            }
        }
        let unassigned = Arc::clone(&self.unassigned);
        (!moved.is_empty()).then_some((Self { owners, unassigned, servers }, moved))
    }
}
