//! Starts a client: the library with nodes whose servers are simulated.

use std::sync::Arc;

use crate::client::Redlock;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::node::{
    CONNECT_TIMEOUT, ClusterNode, Durability, Needs, Node, RedisNode, RunIds, Target, Watch,
};
use crate::options::Address;
use crate::options::client::Config;

use super::clock::ClientClock;
use super::environment::ClientEnvironment;
use super::link::Link;
use super::logins::expiring;
use super::net::{QUORUM, sentinel_port, server_port};
use super::play::Player;
use super::simulated::SimulatedNode;
use super::usage::Client;

impl Player<'_> {
    pub(super) fn start_client(&mut self, id: usize) {
        let clock = ClientClock { world: Arc::clone(&self.world), rate: self.scenario.clients[id] };
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let count = self.scenario.nodes.len();
        let environment = ClientEnvironment {
            client: id,
            clock: clock.clone(),
            spawned: Arc::clone(&self.spawned),
            kept: self.scenario.kept,
        };
        self.environments.push(Arc::new(environment));
        self.enter(id);
        let mut world = self.world.lock().unwrap();
        let places = world.servers.len();
        world.links.push((0..places).map(|_| Link::default()).collect());
        world.dead.push(false);
        drop(world);
        let (run_ids, mut nodes) = (Arc::default(), Vec::new());
        let (running, watching) =
            Running::assemble(&shared, CONNECT_TIMEOUT, Arc::default(), |watch| {
                let node = |node| self.node(id, node, &shared, watch, &run_ids);
                nodes = (0..count).map(node).collect();
                nodes.clone()
            });
        let config = Config {
            nodes: Vec::new(),
            label: None,
            key_prefix: String::new(),
            connect_timeout: CONNECT_TIMEOUT,
            unavailable_after: None,
            node_timeout: None,
            guard: self.scenario.guard,
            durability: Durability { min_replicas: self.scenario.replicas.1, fsync: false },
            clock: shared,
            runtime: None,
        };
        let redlock = Redlock::from_engine(Engine::with_running(config, running));
        let (monitor, spawned) = (Arc::clone(&self.monitor), Arc::clone(&self.spawned));
        let fencing = self.scenario.fencing;
        let weak: Vec<_> = nodes.iter().map(Arc::downgrade).collect();
        self.nodes.push(weak.clone());
        self.clients.push(Some(Client {
            id,
            redlock,
            clock,
            monitor,
            spawned,
            fencing,
            nodes: weak,
        }));
        self.spawn(id, watching);
        for node in &nodes {
            let connected = node.connected("a");
            self.spawn(id, Box::pin(async move { drop(connected.await) }));
        }
    }

    /// A node of the product: a server, a service of sentinels, or a cluster.
    fn node(
        &self,
        client: usize,
        node: usize,
        clock: &Arc<dyn Clock>,
        watch: &Arc<Watch>,
        run_ids: &Arc<RunIds>,
    ) -> Arc<dyn Node> {
        let (shards, count) = (self.scenario.shards, self.scenario.nodes.len());
        let host = |port: u16| format!("127.0.0.1:{port}");
        let servers = (0..shards).map(|shard| host(server_port(node + shard * count, 0)));
        let servers = servers.collect::<Vec<_>>().join(",");
        let sentinels = (0..QUORUM).map(|index| host(sentinel_port(node, index)));
        let url = if shards > 1 {
            format!("redis+cluster://{servers}")
        } else if self.scenario.sentinels {
            format!("redis+sentinel://{}/lock", sentinels.collect::<Vec<_>>().join(","))
        } else {
            format!("redis://{servers}")
        };
        let address = Address::parse(&url).and_then(|address| match self.scenario.login {
            Some(lifetime) => address.with(&expiring(&self.world, lifetime)),
            None => Ok(address),
        });
        let Ok(Address::Redis(route) | Address::Cluster(route)) = address else { panic!("{url}") };
        let durability = Durability { min_replicas: self.scenario.replicas.1, fsync: false };
        let needs = Needs { key_prefix: String::new(), durability };
        let target = Target::alone(route, self.scenario.guard, needs, Arc::clone(run_ids));
        let ours = (None, Arc::clone(clock), Arc::clone(watch));
        let node: Arc<dyn Node> = if shards > 1 {
            Arc::new(ClusterNode::new(target, ours.0, ours.1, ours.2))
        } else {
            Arc::new(RedisNode::new(target, ours.0, ours.1, ours.2))
        };
        let (world, outstanding) = (Arc::clone(&self.world), Arc::clone(&self.outstanding));
        Arc::new(SimulatedNode { node, world, client, outstanding })
    }
}
