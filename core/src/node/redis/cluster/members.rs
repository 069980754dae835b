//! Manages the servers of a cluster. Each one gets a connection when it is first named.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::super::context::HEARD;
use super::super::handshake::guard_time;
use super::super::protocol::InFlight;
use super::super::strays::{Address, Outlet, Stray};
use super::super::{Needs, RedisNode, Route, RunIds, Target};
use super::map::{Map, Member};
use super::seeds::Seeds;
use super::topology::{Range, Topology};
use crate::clock::{Clock, Instant};
use crate::foreground::OnRuntime;
use crate::node::Watch;

/// How many servers a survey asks. Their replies are compared.
const ASKED: usize = 3;
/// How long after a "cluster is down" reply another server may take over. This is longer than a failover takes.
const FAILOVER: Duration = Duration::from_secs(30);
/// How long a server without slots is kept, with its connection.
const KEPT: Duration = Duration::from_secs(600);

/// The parameters of every connection of a cluster.
pub(super) struct Maker {
    pub(super) url: String,
    pub(super) seeds: Seeds,
    /// How long a new server takes no first vote.
    pub(super) guard: Duration,
    pub(super) needs: Needs,
    /// Detects a cluster that is configured twice.
    pub(super) run_ids: Arc<RunIds>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watch: Arc<Watch>,
    /// The runtime whose tasks read their own replies.
    pub(super) runtime: Option<Arc<OnRuntime>>,
    /// Receives what the connections cannot complete.
    pub(super) strays: UnboundedSender<(Address, Stray)>,
    /// Counts deletes that are no longer at the server that they were first sent to.
    pub(super) astray: Weak<()>,
}

impl RedisNode {
    /// Queues a redirected command, or one that waited for its owner.
    pub(super) fn give(&self, in_flight: InFlight) {
        self.queue.put(in_flight);
    }
}

/// The known servers.
pub(super) struct Members {
    maker: Maker,
    /// Every server that was ever named, with its connection.
    known: HashMap<Address, Arc<Member>>,
    /// When each server was last seen with slots.
    owned: HashMap<Address, Instant>,
    /// Servers that had a connection or an attempt and now have no connection.
    down: HashSet<Address>,
    /// Servers that replied that one of their slots is not served, and when they last did.
    refused: HashMap<Address, Instant>,
    /// The result of the last survey.
    ranges: Vec<Range>,
    /// Servers to ask first, because they know about a change directly.
    preferred: Vec<Address>,
}

impl Members {
    pub(super) fn new(maker: Maker) -> Self {
        let (known, owned, down) = (HashMap::new(), HashMap::new(), HashSet::new());
        let (refused, ranges, preferred) = (HashMap::new(), Vec::new(), Vec::new());
        Self { maker, known, owned, down, refused, ranges, preferred }
    }

    /// Returns the URL of the cluster without its password.
    pub(super) fn url(&self) -> &str {
        &self.maker.url
    }

    /// Counts a waiting delete until it is done.
    pub(super) fn keep(&self, in_flight: &mut InFlight) {
        in_flight.goes_astray(&self.maker.astray);
    }

    /// Returns all servers.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Member>> {
        self.known.values().map(Arc::clone)
    }

    /// Returns the server at this address. It connects with its first command.
    pub(super) fn get(&mut self, address: &Address) -> Arc<Member> {
        let maker = &self.maker;
        let member = self.known.entry(address.clone()).or_insert_with(|| {
            let target = Target {
                url: maker.url.clone(),
                route: Route::Fixed(maker.seeds.at(address)),
                guard: maker.guard,
                needs: maker.needs.clone(),
                run_ids: Arc::clone(&maker.run_ids),
                runtime: maker.runtime.clone(),
                outlet: Some(Outlet {
                    to: maker.strays.clone(),
                    from: address.clone(),
                    astray: Weak::clone(&maker.astray),
                }),
            };
            let (clock, watch) = (Arc::clone(&maker.clock), Arc::clone(&maker.watch));
            let node = RedisNode::new(target, clock, watch);
            Arc::new(Member { address: Some(address.clone()), node })
        });
        Arc::clone(member)
    }

    /// Records that the server has a connection.
    pub(super) fn opened(&mut self, address: &Address) {
        self.down.remove(address);
    }

    /// Records that the server has no connection. Returns whether this is new.
    pub(super) fn ended(&mut self, address: &Address) -> bool {
        self.down.insert(address.clone())
    }

    /// Records that the server replied that its cluster is down, or that it does not serve one of its slots.
    pub(super) fn refused(&mut self, address: &Address, now: Instant) {
        self.refused.insert(address.clone(), now);
    }

    /// Makes the next survey ask these servers first, in this order.
    pub(super) fn prefer<'a>(&mut self, addresses: impl IntoIterator<Item = &'a Address>) {
        for address in addresses {
            if self.preferred.len() < ASKED && !self.preferred.contains(address) {
                self.preferred.push(address.clone());
            }
        }
    }

    /// Whether a server with slots is unreachable or does not serve them. Another server may then take over at any
    /// time.
    pub(super) fn misses(&self, map: &Map, now: Instant) -> bool {
        let refuses = |address: &Address| {
            self.refused.get(address).is_some_and(|at| now.since(*at) < FAILOVER)
        };
        let misses = |member: &Arc<Member>| {
            self.is_down(member) || member.address.as_ref().is_some_and(refuses)
        };
        map.servers().iter().any(misses)
    }

    /// Whether its last connection ended or could not be opened.
    fn is_down(&self, member: &Member) -> bool {
        member.address.as_ref().is_some_and(|address| self.down.contains(address))
    }

    /// Selects the servers for a survey. With `all`, it selects every server that may know the slots, because the
    /// preferred ones did not reply.
    pub(super) fn asked(&mut self, map: &Map, all: bool) -> Vec<Arc<Member>> {
        let mut asked: Vec<_> =
            map.servers().iter().filter(|member| !self.is_down(member)).map(Arc::clone).collect();
        fastrand::shuffle(&mut asked);
        let preferred = std::mem::take(&mut self.preferred);
        let preferred: Vec<_> = preferred.iter().map(|address| self.get(address)).collect();
        asked.retain(|member| !preferred.iter().any(|first| Arc::ptr_eq(first, member)));
        asked.splice(..0, preferred);
        asked.truncate(ASKED);
        // A single master may be partitioned. Its replicas know more.
        if all || asked.len() < 2 {
            let owners =
                self.ranges.iter().flat_map(|range| range.replicas.iter().chain([&range.owner]));
            let every: HashSet<Address> =
                owners.cloned().chain(self.maker.seeds.addresses()).collect();
            asked = every.iter().map(|address| self.get(address)).collect();
        }
        asked
    }

    /// Stores the result of a survey and removes servers that are no longer needed.
    pub(super) fn learn(&mut self, topology: Topology, map: &Map, now: Instant) {
        self.ranges = topology.ranges;
        // Preferred until they agree.
        self.prefer(topology.disputed.iter().flat_map(|(_, owners)| owners));
        let owners = map.servers().iter().filter_map(|member| member.address.clone());
        self.owned.extend(owners.map(|address| (address, now)));
        self.owned.retain(|_, at| now.since(*at) < KEPT);
        let owned = &self.owned;
        self.known.retain(|address, _| owned.contains_key(address));
        self.down.retain(|address| owned.contains_key(address));
        self.refused.retain(|address, at| owned.contains_key(address) && now.since(*at) < FAILOVER);
    }

    /// Guards slots that moved to this server. It takes no first vote in them until every lease has ended that the
    /// previous owner may have granted last. The reason for the move is unknown: the previous owner may have handed
    /// over its keys, or failed so that a replica took over.
    pub(super) fn guard(&self, slots: impl Iterator<Item = u16>, to: &Member, now: Instant) {
        if !self.maker.guard.is_zero() {
            to.node.link.guard_slots(slots, now, now + guard_time(self.maker.guard) + HEARD);
        }
    }
}
