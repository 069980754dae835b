//! Starts a client: the library over simulated nodes.

use std::sync::Arc;

use crate::client::Redlock;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::node::{CONNECT_TIMEOUT, Durability, Node};
use crate::options::client::Config;

use super::clock::ClientClock;
use super::link::Link;
use super::play::Player;
use super::router::Cluster;
use super::simulated::SimulatedNode;
use super::usage::Client;

impl Player<'_> {
    pub(super) fn start_client(&mut self, id: usize) {
        let clock = ClientClock { world: Arc::clone(&self.world), rate: self.scenario.clients[id] };
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let mut watched = None;
        let count = self.scenario.nodes.len();
        let (running, watching) =
            Running::assemble(&shared, CONNECT_TIMEOUT, Arc::default(), |watch| {
                watched = Some(Arc::clone(watch));
                let node = |node| -> Arc<dyn Node> {
                    let url = format!("node://{node}");
                    Arc::new(SimulatedNode {
                        world: Arc::clone(&self.world),
                        client: id,
                        node,
                        url,
                    })
                };
                (0..count).map(node).collect()
            });
        let config = Config {
            nodes: Vec::new(),
            key_prefix: String::new(),
            connect_timeout: CONNECT_TIMEOUT,
            unavailable_after: None,
            node_timeout: None,
            guard: self.scenario.guard,
            durability: Durability { min_replicas: self.scenario.replicas.1, fsync: false },
            clock: shared,
            runtime: None,
        };
        let mut world = self.world.lock().unwrap();
        let places = world.servers.len();
        world.links.push((0..places).map(|_| Link::default()).collect());
        let cluster = |node| Cluster::new((node..places).step_by(count));
        let clusters = if world.shards > 1 { count } else { 0 };
        world.clusters.push((0..clusters).map(cluster).collect());
        world.watches.push(watched);
        world.dead.push(false);
        for place in 0..places {
            world.connect(id, place, 0);
        }
        drop(world);
        let redlock = Redlock::from_engine(Engine::with_running(config, running));
        let (monitor, spawned) = (Arc::clone(&self.monitor), Arc::clone(&self.spawned));
        let fencing = self.scenario.fencing;
        self.clients.push(Some(Client { id, redlock, clock, monitor, spawned, fencing }));
        self.spawn(id, watching);
    }
}
