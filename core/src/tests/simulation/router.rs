//! A cluster as its client sees it. Each command goes to the known owner of the slot.
//!
//! The map and the rules for redirected commands are those of the core. This module is the task between them. All keys
//! are in one slot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::node::{
    Change, Fault, Map, Member, Purpose, Redirects, Ruling, ServerAddress, redirect_pause, ruling,
};

use super::clock::Time;
use super::failover::NOTICE_TIME;
use super::link::Open;
use super::request::{Redirect, Request};
use super::world::{Event, MS, World};

/// A message from a connection to its cluster task.
pub(super) enum ClusterMessage {
    Redirected(Option<Open>, Redirect),
    PendingDelete(ForwardedDelete),
    /// A connection was closed or opened.
    ConnectionChanged,
    /// A request whose delay is over, for this server or the owner of the slot.
    Delayed(Open, Option<usize>, Duration),
}

/// A pending delete for the slot's owner.
pub(super) type ForwardedDelete = (Request, Duration, Option<Instant>, Redirects);

/// One client's knowledge of one cluster.
pub(super) struct Cluster {
    members: BTreeMap<usize, Arc<Member<usize>>>,
    map: Map<usize>,
    pending_deletes: Vec<ForwardedDelete>,
    messages: BTreeMap<u64, (usize, ClusterMessage)>,
    /// The discovery in progress, and the reports of the servers.
    discovery: Option<u64>,
    reports: Vec<(usize, (usize, u64))>,
    due: bool,
    /// A server was cut off. Discoveries are repeated until this time.
    unsettled_until: Time,
}

/// All keys are in this slot.
const SLOT: u16 = 0;
/// Minimum time between two discoveries.
const DISCOVERY_INTERVAL: Time = 20 * MS;
/// The minimum time while an error persists, and how long that lasts.
const ERROR_DISCOVERY_INTERVAL: Time = 250 * MS;
const FAILOVER_DURATION: Time = 30_000 * MS;
/// Maximum duration of a discovery.
const DISCOVERY_TIMEOUT: Time = 300 * MS;

impl Cluster {
    /// Creates a cluster of the servers at these places. The first one has the slot.
    pub(super) fn new(places: impl Iterator<Item = usize>) -> Self {
        let member = |place: usize| {
            let address = ServerAddress::new("server", u16::try_from(place).unwrap());
            (place, Arc::new(Member { address, node: place }))
        };
        let members: BTreeMap<_, _> = places.map(member).collect();
        let map =
            Map::new(Arc::new(Member { address: ServerAddress::unknown(), node: usize::MAX }));
        let first = members.values().next().map(|member| (SLOT, Arc::clone(member)));
        let (map, _) = map.moved(first.into_iter()).unwrap();
        let (pending_deletes, messages) = (Vec::new(), BTreeMap::new());
        let (discovery, reports, due, unsettled_until) = (None, Vec::new(), false, 0);
        Self { members, map, pending_deletes, messages, discovery, reports, due, unsettled_until }
    }
}

fn release((request, lifetime, until, redirects): ForwardedDelete) -> Open {
    let mut open = Open::without_caller(request, lifetime);
    if let Purpose::Delete { until: end, .. } = &mut open.purpose {
        *end = until;
    }
    open.redirects = Redirects { asking: false, ..redirects };
    open
}

impl World {
    /// Number of nodes. A cluster is one node with several servers.
    pub(super) fn nodes(&self) -> usize {
        self.servers.len() / self.shards
    }

    fn cluster(&mut self, client: usize, place: usize) -> Option<&mut Cluster> {
        let node = place % self.nodes();
        self.clusters[client].get_mut(node)
    }

    /// The server to which this client sends its requests.
    pub(super) fn owner(&self, client: usize, node: usize) -> usize {
        self.clusters[client].get(node).map_or(node, |cluster| cluster.map.owner(SLOT).node)
    }

    /// Passes a message from a connection to its cluster task, if the node is a cluster.
    pub(super) fn send_to_cluster(&mut self, client: usize, place: usize, message: ClusterMessage) {
        let id = self.new_id();
        let later = match &message {
            ClusterMessage::Delayed(_, _, pause) => *pause,
            _ => Duration::ZERO,
        };
        let Some(cluster) = self.cluster(client, place) else { return };
        cluster.messages.insert(id, (place, message));
        let at = self.now + u64::try_from(later.as_nanos()).unwrap();
        self.at(at, Event::ClusterMessage { client, place, id });
    }

    pub(super) fn route(&mut self, client: usize, place: usize, id: u64) {
        let message = self.cluster(client, place).and_then(|cluster| cluster.messages.remove(&id));
        let node = place % self.nodes();
        match message {
            Some((from, ClusterMessage::Redirected(open, redirect))) => {
                self.redirect(client, from, open, redirect);
            }
            Some((_, ClusterMessage::Delayed(open, to, _))) => {
                let to = to.unwrap_or_else(|| self.owner(client, node));
                self.send((client, to), open);
            }
            Some((_, ClusterMessage::ConnectionChanged)) => {
                self.start_discovery(client, place, DISCOVERY_INTERVAL);
            }
            Some((from, ClusterMessage::PendingDelete((request, lifetime, until, redirects)))) => {
                let owner = self.owner(client, node);
                if owner != from {
                    return self
                        .send((client, owner), release((request, lifetime, until, redirects)));
                }
                let until = until.unwrap_or(self.clocks[client].local(self.now) + lifetime);
                let pending_deletes =
                    self.cluster(client, place).map(|cluster| &mut cluster.pending_deletes);
                let pending = (request, lifetime, Some(until), Redirects::default());
                pending_deletes
                    .into_iter()
                    .for_each(|pending_deletes| pending_deletes.push(pending.clone()));
            }
            None => {}
        }
    }

    fn redirect(&mut self, client: usize, from: usize, open: Option<Open>, redirect: Redirect) {
        match redirect {
            Redirect::Moved(to) => self.record_move(client, from, to),
            Redirect::Down => self.refused(client, from),
            Redirect::Ask(_) | Redirect::TryAgain => {}
        }
        let Some(mut open) = open else { return };
        let now = self.clocks[client].local(self.now);
        let heard = !open.answer.is_closed();
        let Some(pause) = redirect_pause(&mut open.redirects, &mut open.purpose, heard, now) else {
            return drop(open.answer.send(Err(Fault::new("sent on too long"))));
        };
        let to = if let Redirect::Ask(to) = redirect { Some(to) } else { None };
        open.redirects.asking = to.is_some();
        self.send_to_cluster(client, from, ClusterMessage::Delayed(open, to, pause));
    }

    fn record_move(&mut self, client: usize, from: usize, to: usize) {
        if self.owner(client, from % self.nodes()) == from {
            self.change(client, to);
            self.start_discovery(client, to, DISCOVERY_INTERVAL);
        }
    }

    /// A server reports that it is cut off.
    fn refused(&mut self, client: usize, place: usize) {
        let until = self.now + FAILOVER_DURATION;
        if let Some(cluster) = self.cluster(client, place) {
            cluster.unsettled_until = until;
        }
        self.start_discovery(client, place, DISCOVERY_INTERVAL);
    }

    /// This server has the slot now. It takes no first vote in it for a while, because it may lack the grants of
    /// another server.
    fn change(&mut self, client: usize, to: usize) {
        let now = self.clocks[client].local(self.now);
        let guard = (!self.guard.is_zero()).then(|| self.guard.mul_f64(1.01));
        let extends_from = guard.map(|_| now + NOTICE_TIME);
        let from = guard.map(|guard| now + NOTICE_TIME + guard);
        let Some(cluster) = self.cluster(client, to) else { return };
        let member = Arc::clone(&cluster.members[&to]);
        let Some((next, _)) = cluster.map.moved([(SLOT, member)].into_iter()) else { return };
        cluster.map = next;
        let link = &mut self.links[client][to];
        (link.slot_from, link.extends_from) = (from, extends_from);
        let Some(cluster) = self.cluster(client, to) else { return };
        for pending in std::mem::take(&mut cluster.pending_deletes) {
            self.send((client, to), release(pending));
        }
        if let Some(watch) = &self.watches[client] {
            watch.changed(Change::All);
        }
    }

    fn start_discovery(&mut self, client: usize, place: usize, pause: Time) {
        let at = self.now + pause;
        if let Some(cluster) = self.cluster(client, place)
            && !std::mem::replace(&mut cluster.due, true)
        {
            self.at(at, Event::QueryAll { client, place });
        }
    }

    /// Starts a discovery: requests the owner of the slot from every server.
    pub(super) fn query_all(&mut self, client: usize, place: usize) {
        let (discovery, end) = (self.new_id(), self.now + DISCOVERY_TIMEOUT);
        let Some(cluster) = self.cluster(client, place) else { return };
        (cluster.due, cluster.discovery) = (false, Some(discovery));
        cluster.reports.clear();
        let places: Vec<usize> = cluster.members.keys().copied().collect();
        for place in places {
            let question = Request::Slots { discovery };
            self.send((client, place), Open::without_caller(question, Duration::ZERO));
        }
        self.at(end, Event::DiscoveryEnded { client, place, discovery });
    }

    /// A server reports the owner of the slot. When all have reported, their reports are compared.
    pub(super) fn reported(
        &mut self,
        client: usize,
        place: usize,
        discovery: u64,
        claim: (usize, u64),
    ) {
        if let Some(cluster) = self.cluster(client, place)
            && cluster.discovery == Some(discovery)
        {
            cluster.reports.push((place, claim));
            if cluster.reports.len() == cluster.members.len() {
                self.end_discovery(client, place, discovery);
            }
        }
    }

    /// Ends a discovery, and changes the map if the reports agree on an owner.
    pub(super) fn end_discovery(&mut self, client: usize, place: usize, discovery: u64) {
        let now = self.now;
        let Some(cluster) = self.cluster(client, place) else { return };
        if cluster.discovery != Some(discovery) {
            return;
        }
        cluster.discovery = None;
        let reports: Vec<_> =
            cluster.reports.iter().map(|(by, claim)| (Some(*by), Some(*claim))).collect();
        let unsettled = now < cluster.unsettled_until;
        let ruling = ruling(&reports);
        if let Ruling::Owner(owner) = ruling {
            self.change(client, owner);
        }
        if unsettled || ruling == Ruling::Disputed {
            self.start_discovery(client, place, ERROR_DISCOVERY_INTERVAL);
        }
    }
}
