//! The servers of a cluster: each with a connection of its own, made when it is first heard of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::super::context::HEARD;
use super::super::handshake::guard_time;
use super::super::in_flight::InFlight;
use super::super::strays::{Address, Outlet, Stray};
use super::super::{Needs, RedisNode, Route, RunIds, Target};
use super::map::{Map, Member};
use super::seeds::Seeds;
use super::topology::Range;
use crate::clock::{Clock, Instant};
use crate::foreground::OnRuntime;
use crate::node::Watch;

/// So many servers are asked at once: the first answer is taken.
const ASKED: usize = 3;
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
    /// As the last survey found them.
    ranges: Vec<Range>,
    /// Whom to ask first.
    preferred: Option<Arc<Member>>,
}

impl Members {
    pub(super) fn new(maker: Maker) -> Self {
        let (known, owned, down) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { maker, known, owned, down, ranges: Vec::new(), preferred: None }
    }

    /// The cluster's URL, without its password.
    pub(super) fn url(&self) -> &str {
        &self.maker.url
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
                outlet: Some(Outlet::new(maker.strays.clone(), address.clone())),
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

    /// There is none.
    pub(super) fn ended(&mut self, address: &Address) {
        self.down.insert(address.clone());
    }

    /// It is asked before the others: it has just got a slot.
    pub(super) fn prefer(&mut self, member: &Arc<Member>) {
        self.preferred = Some(Arc::clone(member));
    }

    /// Whether a server that has slots cannot be reached: another one may take its place at any moment.
    pub(super) fn misses(&self, map: &Map) -> bool {
        map.servers().iter().any(|member| self.is_down(member))
    }

    /// Whether its last connection ended, or could not be opened.
    fn is_down(&self, member: &Member) -> bool {
        member.address.as_ref().is_some_and(|address| self.down.contains(address))
    }

    /// Whom to ask who has which slots. `all`: whoever may know, as those who should know did not say.
    pub(super) fn asked(&mut self, map: &Map, all: bool) -> Vec<Arc<Member>> {
        if let Some(preferred) = self.preferred.take().filter(|_| !all) {
            return vec![preferred];
        }
        let mut asked: Vec<_> =
            map.servers().iter().filter(|member| !self.is_down(member)).map(Arc::clone).collect();
        fastrand::shuffle(&mut asked);
        asked.truncate(ASKED);
        if all || asked.is_empty() {
            let owners =
                self.ranges.iter().flat_map(|range| range.replicas.iter().chain([&range.owner]));
            let every: HashSet<Address> =
                owners.cloned().chain(self.maker.seeds.addresses()).collect();
            asked = every.iter().map(|address| self.get(address)).collect();
        }
        asked
    }

    /// What a survey found is remembered, and servers that it has no use for are let go of.
    pub(super) fn learn(&mut self, ranges: Vec<Range>, map: &Map, now: Instant) {
        self.ranges = ranges;
        let owners = map.servers().iter().filter_map(|member| member.address.clone());
        self.owned.extend(owners.map(|address| (address, now)));
        self.owned.retain(|_, at| now.since(*at) < KEPT);
        let owned = &self.owned;
        self.known.retain(|address, _| owned.contains_key(address));
        self.down.retain(|address| owned.contains_key(address));
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
