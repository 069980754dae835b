//! Implements a Redis Cluster as one node, with a connection for each server.
//!
//! A command for a key goes to the owner of the key's slot. It looks its owner up in the map and then works as for
//! [`RedisNode`]. The task of [`router`] maintains the map and handles redirects (MOVED, ASK). Before there is a map,
//! it handles every command.

mod atlas;
mod ending;
mod map;
mod members;
mod onward;
mod router;
mod ruling;
mod seeds;
mod survey;
#[cfg(test)]
mod tests;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use super::queue::queue;
use super::{Needs, RedisNode, Route, RunIds};
use crate::background;
use crate::clock::Clock;
use crate::foreground::OnRuntime;
use crate::node::{
    Claim, Extension, Fault, Holder, Node, Outage, Reply, Vote, VoteParams, Watch, slot,
};
use atlas::Atlas;
use map::{Map, Member};
use members::{Maker, Members};
use router::Router;

pub(crate) use seeds::Seeds;

/// A cluster as one logical node.
pub(crate) struct ClusterNode {
    /// Without its password.
    url: String,
    map: Arc<ArcSwap<Map>>,
    clock: Arc<dyn Clock>,
    /// The outage of the cluster as a whole. Each server has its own one too.
    outage: Outage,
    /// Counts the unfinished deletes that passed through the router. Each of them has a clone.
    astray: Arc<()>,
    /// Dropped with the client, which eventually ends the router.
    _client: oneshot::Sender<()>,
}

impl ClusterNode {
    /// Starts the task of the cluster. It connects with the first command.
    pub(crate) fn new(
        seeds: Seeds,
        (guard, needs): (Duration, Needs),
        run_ids: Arc<RunIds>,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
        runtime: Option<Arc<OnRuntime>>,
    ) -> Self {
        let url = seeds.redacted();
        // The lobby has no connection. The router takes its commands.
        let ((to_lobby, lobby, _), (to_router, strays)) = (queue(None), unbounded_channel());
        let node = RedisNode::leading_to(
            to_lobby,
            (url.clone(), Route::Fixed(seeds.first())),
            &needs,
            Arc::clone(&clock),
        );
        let map = Map::new(Arc::new(Member { address: None, node }));
        let map = Arc::new(ArcSwap::from_pointee(map));
        let astray = Arc::new(());
        let maker = Maker {
            url: url.clone(),
            seeds,
            guard,
            needs,
            run_ids,
            clock: Arc::clone(&clock),
            watch: Arc::clone(&watch),
            runtime,
            strays: to_router,
            astray: Arc::downgrade(&astray),
        };
        let (members, time) = (Members::new(maker), Arc::clone(&clock));
        let router = Router::new(lobby, strays, Atlas::new(Arc::clone(&map), members, time, watch));
        let (client, gone) = oneshot::channel();
        // The task outlives the node while deletes are pending.
        background::spawn(router.run(gone)).detach();
        let outage = Outage::default();
        Self { url, map, clock, outage, astray, _client: client }
    }

    /// Sends a command to the owner of the key's slot. The map is held meanwhile, because a change of the map waits for
    /// its readers.
    fn of<T>(&self, key: Option<&String>, ask: impl FnOnce(&RedisNode) -> T) -> T {
        let map = self.map.load();
        // A lock always has a key.
        ask(&map.owner(key.map_or(0, |key| slot(key))).node)
    }

    /// Deletes the keys at every server that may have them. The reply of the owner counts.
    fn delete(
        &self,
        claim: &Claim,
        delete: impl FnOnce(&RedisNode) -> Reply<bool>,
        again: impl Fn(&RedisNode) -> Reply<bool>,
    ) -> Reply<bool> {
        let map = self.map.load();
        let slot = claim.keys.first().map_or(0, |key| slot(key));
        let (owner, former) = map.deleted_at(slot);
        // The owner comes first, ahead of the deletes that former owners redirect to it. Only the first delete finds
        // the key, and its reply must reach the caller.
        let reply = delete(&owner.node);
        for member in former {
            drop(again(&member.node));
        }
        reply
    }
}

impl Node for ClusterNode {
    fn url(&self) -> &str {
        &self.url
    }

    fn outage(&self) -> Option<&Outage> {
        Some(&self.outage)
    }

    fn pushes(&self, key: &str) -> bool {
        self.map.load().owner(slot(key)).node.pushes(key)
    }

    fn is_connected(&self, key: &str) -> bool {
        self.map.load().owner(slot(key)).node.is_connected(key)
    }

    fn connected(&self, key: &str) -> Reply<()> {
        self.map.load().owner(slot(key)).node.connected(key)
    }

    fn guard_fault(&self, key: &str) -> Option<Fault> {
        self.map.load().owner(slot(key)).node.guard_fault(key)
    }

    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote> {
        self.of(claim.keys.first(), |owner| owner.acquire(claim, params))
    }

    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension> {
        self.of(claim.keys.first(), |owner| owner.extend(claim, params))
    }

    fn release(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        let again = |former: &RedisNode| former.release_late(claim, owed);
        self.delete(claim, |owner| owner.release(claim, owed), again)
    }

    fn release_late(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        let again = |former: &RedisNode| former.release_late(claim, owed);
        self.delete(claim, again, again)
    }

    fn shorten(&self, claim: &Claim, owed: Duration, stay: Duration) -> Reply<bool> {
        let again = |former: &RedisNode| former.shorten(claim, owed, stay);
        self.delete(claim, again, again)
    }

    fn inspect(&self, key: &str) -> Reply<Option<Holder>> {
        self.map.load().owner(slot(key)).node.inspect(key)
    }

    fn force_release(&self, keys: &[String]) -> Reply<bool> {
        self.of(keys.first(), |owner| owner.force_release(keys))
    }

    fn reconnects(&self) -> u64 {
        let map = self.map.load();
        map.servers().iter().map(|member| member.node.reconnects()).sum()
    }

    fn owes(&self) -> bool {
        let (map, now) = (self.map.load(), self.clock.now());
        Arc::strong_count(&self.astray) > 1
            || map.servers().iter().chain([map.lobby()]).any(|member| member.node.link.owes(now))
    }

    fn drained(&self) -> Reply<()> {
        let map = self.map.load_full();
        Box::pin(async move {
            let all = map.servers().iter().chain([map.lobby()]).map(|member| member.node.drained());
            join_all(all).await.into_iter().collect()
        })
    }
}

/// Shared with the simulation, which has its own router.
#[cfg(test)]
pub(crate) mod simulated {
    pub(crate) use super::super::protocol::Detour;
    pub(crate) use super::super::strays::Address as Place;
    pub(crate) use super::map::{Map, Member};
    pub(crate) use super::onward::{Onward, onward, pause, rested};
    pub(crate) use super::ruling::{Ruling, ruling};
}
