//! The servers of a cluster: each with a connection of its own, made when it is first heard of.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::super::context::HEARD;
use super::super::handshake::guard_time;
use super::super::in_flight::InFlight;
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
/// After a server said that its cluster is down another one may take its place for so long: longer than a failover takes.
const FAILOVER: Duration = Duration::from_secs(30);
/// A server that has had no slots for so long is let go of, with its connection.
const KEPT: Duration = Duration::from_secs(600);

/// What every connection of a cluster is made with.
pub(super) struct Maker {
    pub(super) url: String,
    pub(super) seeds: Seeds,
    /// For how long a server that is new takes no first vote.
    pub(super) guard: Duration,
    pub(super) needs: Needs,
    /// By which a cluster that is given twice is found out.
    pub(super) run_ids: Arc<RunIds>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watch: Arc<Watch>,
    /// The runtime whose tasks read by themselves what they wait for.
    pub(super) runtime: Option<Arc<OnRuntime>>,
    /// Where they say what they cannot get done.
    pub(super) strays: UnboundedSender<(Address, Stray)>,
    /// Counts deletes that are not where they were asked first.
    pub(super) astray: Weak<()>,
}

impl RedisNode {
    /// What was asked elsewhere, or of nobody yet, goes on here.
    pub(super) fn give(&self, in_flight: InFlight) {
        self.queue.put(in_flight);
    }
}

/// The servers that are known.
pub(super) struct Members {
    maker: Maker,
    /// Every server that was ever named, with its connection.
    known: HashMap<Address, Arc<Member>>,
    /// When each was seen to have slots last.
    owned: HashMap<Address, Instant>,
    /// Those without a connection, of whom there was one or an attempt.
    down: HashSet<Address>,
    /// Servers that replied that one of their slots is not served, and when they last did.
    refused: HashMap<Address, Instant>,
    /// As the last survey found them.
    ranges: Vec<Range>,
    /// Whom to ask first: those who know of a change at first hand.
    preferred: Vec<Address>,
}

impl Members {
    pub(super) fn new(maker: Maker) -> Self {
        let (known, owned, down) = (HashMap::new(), HashMap::new(), HashSet::new());
        let (refused, ranges, preferred) = (HashMap::new(), Vec::new(), Vec::new());
        Self { maker, known, owned, down, refused, ranges, preferred }
    }

    /// The cluster's URL, without its password.
    pub(super) fn url(&self) -> &str {
        &self.maker.url
    }

    /// A delete waits here: it is counted until it is done.
    pub(super) fn keep(&self, in_flight: &mut InFlight) {
        in_flight.goes_astray(&self.maker.astray);
    }

    /// All that there are.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Member>> {
        self.known.values().map(Arc::clone)
    }

    /// The server at an address. It connects with its first command.
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

    /// There is a connection to it.
    pub(super) fn opened(&mut self, address: &Address) {
        self.down.remove(address);
    }

    /// There is none. Whether there was one until now.
    pub(super) fn ended(&mut self, address: &Address) -> bool {
        self.down.insert(address.clone())
    }

    /// It said that its cluster is down, or that no server has a slot that is its own.
    pub(super) fn refused(&mut self, address: &Address, now: Instant) {
        self.refused.insert(address.clone(), now);
    }

    /// They are asked before the others, the first of them before the rest.
    pub(super) fn prefer<'a>(&mut self, addresses: impl IntoIterator<Item = &'a Address>) {
        for address in addresses {
            if self.preferred.len() < ASKED && !self.preferred.contains(address) {
                self.preferred.push(address.clone());
            }
        }
    }

    /// Whether a server that has slots cannot be reached, or does not serve them: another one may take its place at any
    /// moment.
    pub(super) fn misses(&self, map: &Map, now: Instant) -> bool {
        let refuses = |address: &Address| {
            self.refused.get(address).is_some_and(|at| now.since(*at) < FAILOVER)
        };
        let misses = |member: &Arc<Member>| {
            self.is_down(member) || member.address.as_ref().is_some_and(refuses)
        };
        map.servers().iter().any(misses)
    }

    /// Whether its last connection ended, or could not be opened.
    fn is_down(&self, member: &Member) -> bool {
        member.address.as_ref().is_some_and(|address| self.down.contains(address))
    }

    /// Whom to ask who has which slots. `all`: whoever may know, as those who should know did not say.
    pub(super) fn asked(&mut self, map: &Map, all: bool) -> Vec<Arc<Member>> {
        let mut asked: Vec<_> =
            map.servers().iter().filter(|member| !self.is_down(member)).map(Arc::clone).collect();
        fastrand::shuffle(&mut asked);
        let preferred = std::mem::take(&mut self.preferred);
        let preferred: Vec<_> = preferred.iter().map(|address| self.get(address)).collect();
        asked.retain(|member| !preferred.iter().any(|first| Arc::ptr_eq(first, member)));
        asked.splice(..0, preferred);
        asked.truncate(ASKED);
        // A single master may be the one that is cut off: its replicas know.
        if all || asked.len() < 2 {
            let owners =
                self.ranges.iter().flat_map(|range| range.replicas.iter().chain([&range.owner]));
            let every: HashSet<Address> =
                owners.cloned().chain(self.maker.seeds.addresses()).collect();
            asked = every.iter().map(|address| self.get(address)).collect();
        }
        asked
    }

    /// What a survey found is remembered, and servers that it has no use for are let go of.
    pub(super) fn learn(&mut self, topology: Topology, map: &Map, now: Instant) {
        self.ranges = topology.ranges;
        // Until they agree.
        self.prefer(topology.disputed.iter().flat_map(|(_, owners)| owners));
        let owners = map.servers().iter().filter_map(|member| member.address.clone());
        self.owned.extend(owners.map(|address| (address, now)));
        self.owned.retain(|_, at| now.since(*at) < KEPT);
        let owned = &self.owned;
        self.known.retain(|address, _| owned.contains_key(address));
        self.down.retain(|address| owned.contains_key(address));
        self.refused.retain(|address, at| owned.contains_key(address) && now.since(*at) < FAILOVER);
    }

    /// The server has these slots from now on, which another one had before: it takes no first vote in them until all
    /// leases have ended that the other one may have granted last. Nothing says whether that one gave them away with all
    /// their keys, or failed and a replica took its place.
    pub(super) fn guard(&self, slots: impl Iterator<Item = u16>, to: &Member, now: Instant) {
        if !self.maker.guard.is_zero() {
            to.node.link.guard_slots(slots, now, now + guard_time(self.maker.guard) + HEARD);
        }
    }
}
