//! Implements a Redis Cluster as one node, with a connection for each server.
//!
//! A command for a key goes to the owner of the key's slot. The owner is looked up in the map, and the command then
//! runs as on a [`RedisNode`]. The [`task`] maintains the map, and redirects deletes and the extensions of migrating
//! keys. Any other redirected command is sent again by its waiting caller ([`follow()`]). Before there is a map, the
//! task handles every command.

mod discovery;
mod map;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod topology;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::{FutureExt, join_all};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use crate::clock::{Clock, Instant};
use crate::drivers::RuntimeDriver;
use crate::node::redis::io::endpoint::ServerAddress;
use crate::node::redis::protocol::Target;
use crate::node::redis::protocol::redirects::{ClusterSender, pause};
use crate::node::redis::server::queue;
use crate::node::redis::server::{RedisNode, unless_replaced};
use crate::node::{
    Claim, Extension, Fault, Guarded, Holder, Node, Outage, ReleaseMode, Reply, ServerReplies,
    Vote, VoteParams, Watch, slot,
};
use crate::runtime::background;
use map::{Map, Member};
use state::MapState;
use task::ClusterTask;

/// Why a command for every server was not sent.
const UNKNOWN_SERVERS: &str = "the servers of the cluster are not known yet";

pub(crate) struct ClusterNode {
    /// Without its password.
    url: String,
    map: Arc<ArcSwap<Map>>,
    clock: Arc<dyn Clock>,
    /// The outage of the cluster as a whole. An outage of one server is not logged.
    outage: Outage,
    /// Counts the unfinished deletes that the task redirected. Each of them has a clone.
    rerouted: Arc<()>,
    /// Dropped with the client, which eventually ends the task.
    _client: oneshot::Sender<()>,
}

impl ClusterNode {
    /// Starts the task of the cluster. It connects with the first command. `target` has the parameters of every
    /// connection, except for the address.
    pub(crate) fn new(
        mut target: Target,
        runtime: Option<Arc<RuntimeDriver>>,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
    ) -> Self {
        let url = target.url.clone();
        // The placeholder has no connection. The task of the cluster receives its commands.
        let ((to_unassigned, unassigned, _), (to, events)) = (queue(None), unbounded_channel());
        let node = RedisNode::leading_to(to_unassigned, &target, Arc::clone(&clock));
        let map = Map::new(Arc::new(Member { address: ServerAddress::unknown(), node }));
        let (map, rerouted) = (Arc::new(ArcSwap::from_pointee(map)), Arc::new(()));
        let (from, weak) = (ServerAddress::unknown(), Arc::downgrade(&rerouted));
        target.cluster = Some(ClusterSender { to, from, rerouted: weak });
        let task_clock = Arc::clone(&clock);
        let state = MapState::new(Arc::clone(&map), target, runtime, task_clock, watch);
        let task = ClusterTask::new(unassigned, events, state);
        let (client, gone) = oneshot::channel();
        // The task outlives the node while deletes are pending.
        background::spawn(task.run(gone)).detach();
        Self { url, map, clock, outage: Outage::default(), rerouted, _client: client }
    }

    /// Sends a command to the owner of the key's slot, and again while servers redirect it.
    fn send_command<T, R>(
        &self,
        key: &str,
        timeout: Duration,
        send: impl Fn(&RedisNode) -> R + Send + 'static,
    ) -> Reply<T>
    where
        T: 'static,
        R: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (map, clock, slot) = (Arc::clone(&self.map), Arc::clone(&self.clock), slot(key));
        let send = move || send(&map.load().owner(slot).node);
        Box::pin(follow(clock, timeout, send(), send))
    }

    fn owner(&self, key: &str) -> Arc<Member> {
        Arc::clone(self.map.load().owner(slot(key)))
    }
}

/// Returns the first key, whose slot is that of all keys. A lock always has one.
fn first(keys: &[String]) -> &str {
    keys.first().map_or("", String::as_str)
}

impl Node for ClusterNode {
    fn url(&self) -> &str {
        &self.url
    }

    fn outage(&self) -> Option<&Outage> {
        Some(&self.outage)
    }

    fn pushes(&self, key: &str) -> bool {
        self.owner(key).node.pushes(key)
    }

    fn is_push_checked(&self, key: &str) -> bool {
        self.owner(key).node.is_push_checked(key)
    }

    fn is_connected(&self, key: &str) -> bool {
        self.owner(key).node.is_connected(key)
    }

    fn votes_soon(&self, key: &str, timeout: Duration) -> bool {
        self.owner(key).node.votes_soon(key, timeout)
    }

    fn connecting(&self) -> Option<String> {
        // Before any server is known, the first attempts are those to the servers of the URL.
        let own = self.owner("").node.connecting()?;
        let servers = self.map.load();
        let steps = servers.servers().iter().map(|server| server.node.link.step());
        Some([own].into_iter().chain(steps).find(|step| !step.is_empty()).unwrap_or_default())
    }

    fn connected(&self, key: &str) -> Reply<()> {
        self.owner(key).node.connected(key)
    }

    fn guarded(&self, key: &str) -> Option<Guarded> {
        self.owner(key).node.guarded(key)
    }

    fn still_counts(&self, key: &str, asked: Instant) -> bool {
        self.owner(key).node.still_counts(key, asked)
    }

    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote> {
        let same = claim.clone();
        self.send_command(first(&claim.keys), params.timeout, move |owner| {
            owner.vote(&same, params)
        })
    }

    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension> {
        let (map, asked) = (Arc::clone(&self.map), self.clock.now());
        let (slot, same) = (slot(first(&claim.keys)), claim.clone());
        let reply = self.send_command(first(&claim.keys), params.timeout, move |owner| {
            owner.extension(&same, params)
        });
        Box::pin(async move {
            // The owner at the time of the reply, because the command may have been redirected.
            let replaced =
                || map.load().owner(slot).node.link.guard.extend_fault(|| Some(slot), asked);
            unless_replaced(reply.await?, replaced)
        })
    }

    fn release(
        &self,
        claim: &Claim,
        lifetime: Duration,
        how: ReleaseMode,
        timeout: Duration,
    ) -> Reply<bool> {
        self.owner(first(&claim.keys)).node.release(claim, lifetime, how, timeout)
    }

    fn ping(&self, key: &str, timeout: Duration) -> Reply<()> {
        let same = key.to_owned();
        let first = self.send_command(key, timeout, move |owner| owner.ping(&same, timeout));
        let (map, key) = (Arc::clone(&self.map), key.to_owned());
        Box::pin(async move {
            // Afterwards the map is known.
            first.await?;
            let keys = map.load().key_of_each_server(&key);
            let asked = keys.iter().map(|(server, key)| server.node.ping(key, timeout));
            join_all(asked).await.into_iter().collect()
        })
    }

    fn inspect(&self, key: &str, timeout: Duration) -> Reply<Option<Holder>> {
        let same = key.to_owned();
        self.send_command(key, timeout, move |owner| owner.inspect(&same, timeout))
    }

    fn keys(&self, containing: &str, timeout: Duration) -> Reply<Vec<String>> {
        let map = self.map.load_full();
        if map.servers().is_empty() {
            return Box::pin(ready(Err(Fault::new(UNKNOWN_SERVERS))));
        }
        let pages = map.servers().iter().map(|server| server.node.keys(containing, timeout));
        let pages = join_all(pages.collect::<Vec<_>>());
        Box::pin(async move {
            let pages: Result<Vec<_>, Fault> = pages.await.into_iter().collect();
            pages.map(|pages| pages.concat())
        })
    }

    fn questions(&self, commands: &Arc<[Vec<String>]>) -> Reply<Vec<ServerReplies>> {
        let map = self.map.load_full();
        if map.servers().is_empty() {
            return Box::pin(ready(Err(Fault::new(UNKNOWN_SERVERS))));
        }
        let servers = map.servers().iter().map(|server| {
            let origin = server.address.to_string();
            let asked = server.node.questions(commands);
            asked.map(move |replies| replies.map_err(|fault| fault.with_origin(&origin)))
        });
        let servers = join_all(servers.collect::<Vec<_>>());
        Box::pin(servers.map(|replies| {
            let replies: Result<Vec<_>, Fault> = replies.into_iter().collect();
            replies.map(|replies| replies.concat())
        }))
    }

    fn may_leave_keys(&self) -> bool {
        let now = self.clock.now();
        let leaves = |member: &Arc<Member>| member.node.link.may_leave_keys(now);
        // In the order in which a delete passes through them. The map is loaded again, because a new server may have
        // the deletes of the placeholder.
        leaves(self.map.load().unassigned())
            || self.map.load().servers().iter().any(leaves)
            || Arc::strong_count(&self.rerouted) > 1
    }

    fn drained(&self) -> Reply<()> {
        let map = self.map.load_full();
        Box::pin(async move {
            let members: Vec<_> = map.servers().iter().chain([map.unassigned()]).collect();
            let replies = join_all(members.iter().map(|member| member.node.drained())).await;
            // A server that is down matters only if it has deletes.
            let matters = |member: &Arc<Member>| member.node.may_leave_keys();
            let mut replies = members.into_iter().zip(replies);
            replies.try_for_each(|(member, reply)| if matters(member) { reply } else { Ok(()) })
        })
    }
}

/// Sends a command again while servers redirect it, for as long as its caller waits. Returns the redirect if no time is
/// left for the next reply: the caller would otherwise report that the server is silent.
async fn follow<T, R>(
    clock: Arc<dyn Clock>,
    timeout: Duration,
    mut reply: R,
    send: impl Fn() -> R,
) -> Result<T, Fault>
where
    R: Future<Output = Result<T, Fault>>,
{
    let (until, mut since) = (clock.now() + timeout, None);
    loop {
        let fault = match reply.await {
            Err(fault) if fault.is_redirect() => fault,
            result => return result,
        };
        let now = clock.now();
        let next = now + pause(*since.get_or_insert(now), now);
        if next >= until {
            return Err(fault);
        }
        clock.sleep_until(next).await;
        reply = send();
    }
}
