//! The known state of a cluster, and its changes: the map, the servers with their connections, and the pending deletes
//! for the next owner of a slot. It waits for nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::discovery::{FAILOVER, When};
use super::map::{Map, Member};
use super::topology::Topology;
use crate::clock::{Clock, Instant};
use crate::drivers::RuntimeDriver;
use crate::node::redis::commands::command::{Command, Redirects};
use crate::node::redis::io::endpoint::ServerAddress;
use crate::node::redis::protocol::redirects::ClusterSender;
use crate::node::redis::protocol::{InFlight, PendingDeletes, Target};
use crate::node::redis::server::RedisNode;
use crate::node::redis::state::restart_guard::MovedSlot;
use crate::node::{Change, Fault, SLOTS, Watch};

/// How many servers a discovery queries. Their replies are compared.
const ASKED: usize = 3;
/// How long a server without slots is kept, with its connection.
const KEEP_IDLE: Duration = Duration::from_secs(600);

/// A server of the cluster, with its connection.
struct Server {
    member: Arc<Member>,
    /// When it was last seen with slots.
    owned: Option<Instant>,
    /// Whether its connection ended, or could not be opened, and it was not seen with a connection since.
    ended: bool,
    /// When it last replied that one of its slots is not served.
    refused: Option<Instant>,
}

impl Server {
    fn is_down(&self) -> bool {
        self.ended && !self.member.node.link.is_open()
    }
}

/// What is known about a cluster.
pub(super) struct MapState {
    pub(super) map: Arc<ArcSwap<Map>>,
    /// The parameters of every connection, except for the address, and the first servers.
    pub(super) target: Target,
    runtime: Option<Arc<RuntimeDriver>>,
    pub(super) clock: Arc<dyn Clock>,
    watch: Arc<Watch>,
    /// Pending deletes for the next owner of a slot.
    pub(super) pending: PendingDeletes,
    servers: BTreeMap<ServerAddress, Server>,
    /// The result of the last discovery. The owners of disputed slots stay the same until the servers agree and know
    /// the address.
    pub(super) topology: Topology,
    /// Servers to query first, because they know about a change directly.
    preferred: Vec<ServerAddress>,
}

impl MapState {
    pub(super) fn new(
        map: Arc<ArcSwap<Map>>,
        target: Target,
        runtime: Option<Arc<RuntimeDriver>>,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
    ) -> Self {
        let pending = PendingDeletes::new(Arc::clone(&map.load().unassigned().node.link), None);
        Self {
            map,
            target,
            runtime,
            clock,
            watch,
            pending,
            servers: BTreeMap::new(),
            topology: Topology::default(),
            preferred: Vec::new(),
        }
    }

    /// Returns the server at this address. It connects with its first command.
    pub(super) fn server(&mut self, address: &ServerAddress) -> Arc<Member> {
        let server = self.servers.entry(address.clone()).or_insert_with(|| {
            let cluster = self.target.cluster.clone();
            let cluster = cluster.map(|any| ClusterSender { from: address.clone(), ..any });
            let route = self.target.route.at(address);
            let target = Target { route, cluster, ..self.target.clone() };
            let (runtime, watch) = (self.runtime.clone(), Arc::clone(&self.watch));
            let node = RedisNode::new(target, runtime, Arc::clone(&self.clock), watch);
            let member = Arc::new(Member { address: address.clone(), node });
            Server { member, owned: None, ended: false, refused: None }
        });
        Arc::clone(&server.member)
    }

    /// Whether the map has servers.
    pub(super) fn knows_servers(&self) -> bool {
        !self.map.load().servers().is_empty()
    }

    pub(super) fn members(&self) -> Vec<Arc<Member>> {
        let servers = self.servers.values().map(|server| Arc::clone(&server.member));
        servers.chain([Arc::clone(self.map.load().unassigned())]).collect()
    }

    /// Records that the server has no connection. If it has slots, another server may take over, so that a discovery is
    /// needed.
    pub(super) fn closed(&mut self, address: &ServerAddress) -> Option<When> {
        let is_new = !std::mem::replace(&mut self.servers.get_mut(address)?.ended, true);
        let when = if is_new { When::Now } else { When::AfterPause };
        self.map.load().has(address).then_some(when)
    }

    /// Records that a server replied that its cluster is down, or that it does not serve a slot that it owns by the
    /// map.
    pub(super) fn refused(&mut self, address: &ServerAddress) {
        if let Some(server) = self.servers.get_mut(address) {
            server.refused = Some(self.clock.now());
        }
    }

    /// Fails a command that was not sent. A delete becomes pending for the next owner of its slot.
    pub(super) fn fail_unsent(&mut self, in_flight: InFlight, fault: &Fault) {
        self.pending.fail_unsent(in_flight, fault, self.clock.now());
    }

    /// Records a pending delete of a server. Sends it to the slot's current owner if that is another server. Otherwise
    /// the next owner gets it.
    ///
    /// The delete keeps its redirects. While a slot migrates to a server that is gone, the owner may redirect it again
    /// immediately.
    pub(super) fn add_pending(
        &mut self,
        from: &ServerAddress,
        command: Command,
        redirects: Redirects,
    ) {
        let map = self.map.load();
        let owner = command.slot().and_then(|slot| map.known_owner(slot));
        match owner.filter(|owner| owner.address != *from) {
            Some(owner) => {
                let mut in_flight = InFlight::without_caller(command);
                in_flight.redirects = Redirects { asking: false, ..redirects };
                owner.node.queue.put(in_flight);
            }
            None => self.pending.add_moved(command, self.clock.now()),
        }
    }

    /// Applies a redirect, and returns whether it did. The map changes only if it names the redirecting server as the
    /// owner. A discovery then queries the reported owner for the rest.
    pub(super) fn apply_redirect(
        &mut self,
        from: &ServerAddress,
        slot: u16,
        to: &ServerAddress,
    ) -> bool {
        if self.map.load().owner(slot).address != *from {
            return false;
        }
        let to = to.announced_by(from);
        if !self.topology.disputes(slot) {
            let owner = self.server(&to);
            self.change_owners([(slot, owner)].into_iter());
        }
        self.preferred.extend([to, from.clone()]);
        true
    }

    /// Whether a problem exists that a later discovery may find resolved: servers disagree, or a server with slots is
    /// unreachable or does not serve them, so that another one may take over at any time.
    pub(super) fn is_unsettled(&self) -> bool {
        let now = self.clock.now();
        let refuses = |server: &Server| server.refused.is_some_and(|at| now.since(at) < FAILOVER);
        let misses = |member: &Arc<Member>| {
            let server = self.servers.get(&member.address);
            server.is_some_and(|server| server.is_down() || refuses(server))
        };
        !self.topology.disputed.is_empty() || self.map.load().servers().iter().any(misses)
    }

    /// Applies the result of a discovery: the reported owner of each slot. A slot without a reported owner has none.
    /// Servers that have had no slot for long are forgotten.
    pub(super) fn apply_discovery(&mut self, topology: Topology) {
        let (map, now) = (self.map.load_full(), self.clock.now());
        let mut owners = vec![Arc::clone(map.unassigned()); usize::from(SLOTS)];
        for slot in topology.disputed.iter().flat_map(|(slots, _)| slots.clone()) {
            owners[usize::from(slot)] = Arc::clone(map.owner(slot));
        }
        for range in &topology.ranges {
            let owner = self.server(&range.owner);
            // Ignores a range that ends before it begins.
            let slots = owners.get_mut(usize::from(range.first)..=usize::from(range.last));
            slots.into_iter().flatten().for_each(|slot| *slot = Arc::clone(&owner));
        }
        self.change_owners((0..).zip(owners));
        self.topology = topology;
        let map = self.map.load_full();
        self.servers.retain(|address, server| {
            server.ended = server.is_down();
            server.owned = if map.has(address) { Some(now) } else { server.owned };
            server.owned.is_some_and(|at| now.since(at) < KEEP_IDLE)
        });
        self.pending.forget_expired(now);
    }

    /// Changes the owners of slots. Waiting callers then send their commands to the new owners, which also get the
    /// pending deletes.
    fn change_owners(&mut self, to: impl Iterator<Item = (u16, Arc<Member>)>) {
        let Some((next, moved)) = self.map.load().moved(to) else { return };
        let (next, now) = (Arc::new(next), self.clock.now());
        // With the first map, no slot changes its owner. Guarded before any vote can reach the new owners.
        if self.knows_servers() {
            self.guard(&next, &moved, now);
        }
        self.map.store(Arc::clone(&next));
        let mut left = None;
        for command in self.pending.take_all() {
            let slot = command.slot();
            let has_moved = slot.is_some_and(|slot| moved.binary_search(&slot).is_ok());
            match slot.and_then(|slot| next.known_owner(slot)) {
                Some(owner) if has_moved => owner.node.queue.put(InFlight::without_caller(command)),
                // Its server counts it too.
                Some(_) => drop(self.pending.add(command, now)),
                None => left = left.max(self.pending.add(command, now)),
            }
        }
        next.unassigned().node.link.pending_deletes_sent(left);
        // The previous owners tracked the reads, so the reads must be repeated.
        self.watch.changed(Change::Slots(moved));
    }

    /// Guards the slots that moved. Their owners extend no lease in them until every client has left the previous
    /// owner. They take no first vote until every lease has ended that the previous owner may have granted last. The
    /// reason for the move is unknown: the previous owner may have handed over its keys, or failed so that a replica
    /// took over.
    fn guard(&self, map: &Map, moved: &[u16], now: Instant) {
        if self.target.guard.is_zero() {
            return;
        }
        let guarded = MovedSlot::at(now, self.target.guard);
        for server in map.servers() {
            let its = |slot: &u16| Arc::ptr_eq(map.owner(*slot), server);
            server.node.link.guard.guard_slots(moved.iter().copied().filter(its), now, guarded);
        }
    }

    /// Returns the servers to query in a discovery. With `all`, they are every server that may know the slots, because
    /// the preferred ones did not reply.
    pub(super) fn servers_to_query(&mut self, all: bool) -> Vec<Arc<Member>> {
        let is_up = |address: &&ServerAddress| {
            self.servers.get(*address).is_none_or(|server| !server.is_down())
        };
        let map = self.map.load_full();
        let addresses = map.servers().iter().map(|member| &member.address);
        let mut others: Vec<_> = addresses.filter(is_up).cloned().collect();
        fastrand::shuffle(&mut others);
        let disputed = self.topology.disputed.iter().flat_map(|(_, owners)| owners.clone());
        let first = std::mem::take(&mut self.preferred).into_iter().chain(disputed);
        let (mut seen, topology) = (HashSet::new(), &self.topology);
        let first = first.chain(others).filter(|address| seen.insert(address.clone()));
        let mut asked: Vec<_> = first.take(ASKED).collect();
        // A single master may be partitioned. Its replicas know more.
        if all || asked.len() < 2 {
            let masters = topology.ranges.iter().map(|range| &range.owner);
            let every = topology.ranges.iter().flat_map(|range| &range.replicas).chain(masters);
            let every: BTreeSet<_> = every.cloned().chain(self.target.route.seeds()).collect();
            asked = every.into_iter().collect();
        }
        asked.iter().map(|address| self.server(address)).collect()
    }
}
