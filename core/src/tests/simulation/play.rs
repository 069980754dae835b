//! Plays a scenario on one thread, in virtual time, with every task polled here.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Wake, Waker};

use crate::node::Node;
use crate::runtime::environment::simulated::{self, Environment};

use super::action::Use;
use super::clock::Time;
use super::environment::ClientEnvironment;
use super::generator::plain;
use super::monitor::Monitor;
use super::progress::CHECK_INTERVAL;
use super::scenario::{BEGIN, Promise, Scenario};
use super::semaphores::{LIMIT, POOL};
use super::server::Server;
use super::simulated::Outstanding;
use super::slots::{Slot, Slots};
use super::usage::{Client, Spawned, continued, lock};
use super::world::{Event, MS, World};

pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Ready {
    id: usize,
    pub(super) queue: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut queue = self.queue.lock().unwrap();
        if !queue.contains(&self.id) {
            queue.push_back(self.id);
        }
    }
}

pub(super) struct Player<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) world: Arc<Mutex<World>>,
    pub(super) monitor: Arc<Mutex<Monitor>>,
    pub(super) clients: Vec<Option<Client>>,
    pub(super) tasks: BTreeMap<usize, (usize, Task, Waker)>,
    next: usize,
    pub(super) queue: Arc<Mutex<VecDeque<usize>>>,
    pub(super) spawned: Arc<Mutex<Vec<Spawned>>>,
    /// By client.
    pub(super) environments: Vec<Arc<ClientEnvironment>>,
    pub(super) nodes: Vec<Vec<Weak<dyn Node>>>,
    pub(super) parked: Vec<usize>,
    pub(super) outstanding: Outstanding,
}

/// How long the clients may take to connect before the first step.
const CONNECT_TIME: Time = 5_000 * MS;

/// Plays the scenario to its end. Returns the first broken promise, if there is one.
pub(super) fn play(scenario: &Scenario) -> Result<usize, String> {
    Player::new(scenario, false).run().0
}

/// Returns every event of the run, one line each.
pub(super) fn trace(scenario: &Scenario) -> Vec<String> {
    Player::new(scenario, true).run().1
}

impl<'a> Player<'a> {
    fn new(scenario: &'a Scenario, tracing: bool) -> Self {
        fastrand::seed(scenario.seed);
        let mut world = World::new(scenario.seed, scenario.latency, scenario.guard, scenario.kills);
        (world.now, world.tracing) = (BEGIN - CONNECT_TIME, tracing);
        (world.faults, world.logins) = (scenario.faults, scenario.login.is_some());
        world.slots_of = match scenario.promise {
            _ if !scenario.seed.is_multiple_of(8) => Slots::Locks,
            Promise::SlotsMove => Slots::Servers,
            _ => Slots::Cluster,
        };
        world.keeps_deletes = scenario.keeps_deletes();
        world.shards = scenario.shards;
        let count = scenario.nodes.len();
        (world.settled, world.moved_again) = (vec![0; count], vec![0; count]);
        for (place, &(ppm, offset_us)) in
            scenario.nodes.iter().cycle().take(count * scenario.shards).enumerate()
        {
            let mut server = Server::new(ppm, offset_us);
            server.replicated(scenario.replicas.0);
            if place >= count {
                server.slot = Slot::Elsewhere(place % count);
            }
            world.servers.push(server);
        }
        world.durability.min_replicas = scenario.replicas.1;
        if scenario.sentinels {
            world.sentinels = vec![Default::default(); count];
        }
        world.clocks.clone_from(&scenario.clients);
        let monitor = Monitor::new(scenario.promise, &scenario.clients);
        let mut player = Self {
            scenario,
            world: Arc::new(Mutex::new(world)),
            monitor: Arc::new(Mutex::new(monitor)),
            clients: Vec::new(),
            tasks: BTreeMap::new(),
            next: 0,
            queue: Arc::default(),
            spawned: Arc::default(),
            environments: Vec::new(),
            nodes: Vec::new(),
            parked: Vec::new(),
            outstanding: Outstanding::default(),
        };
        for id in 0..scenario.clients.len() {
            player.start_client(id);
        }
        // The clients connect first. A run without faults measures how long an acquire takes.
        player.play_until(BEGIN);
        let mut world = player.world.lock().unwrap();
        for (at, step) in scenario.steps.iter().enumerate() {
            world.at(step.at, Event::Step(at));
        }
        world.at(BEGIN + CHECK_INTERVAL, Event::CheckProgress);
        drop(world);
        player
    }

    pub(super) fn spawn(&mut self, client: usize, task: Task) {
        let id = self.next;
        self.next += 1;
        let waker = Waker::from(Arc::new(Ready { id, queue: Arc::clone(&self.queue) }));
        self.tasks.insert(id, (client, task, waker));
        self.queue.lock().unwrap().push_back(id);
    }

    fn now(&self) -> Time {
        self.world.lock().unwrap().now
    }

    fn run(mut self) -> (Result<usize, String>, Vec<String>) {
        let last = self.scenario.steps.last().map_or(BEGIN, |step| step.at);
        let calm = last + 20_000 * MS + u64::try_from(self.scenario.guard.as_nanos()).unwrap() * 2;
        self.play_until(calm);
        // Leases that are held one after the other may not have ended by then. A lease that never ends is not waited
        // for.
        while self.in_use() && self.now() < calm + 120_000 * MS {
            self.play_until(self.now() + 1000 * MS);
        }
        self.probe();
        let end = self.now() + 30_000 * MS;
        self.play_until(end);
        let mut monitor = self.monitor.lock().unwrap();
        let result = monitor.violation.take().map_or(Ok(monitor.grants), Err);
        drop(monitor);
        let trace = std::mem::take(&mut self.world.lock().unwrap().trace);
        (result, trace)
    }

    /// Whether a client holds a lock or waits for one, and no promise is broken.
    fn in_use(&self) -> bool {
        let monitor = self.monitor.lock().unwrap();
        monitor.violation.is_none() && !(monitor.live.is_empty() && monitor.waiting.is_empty())
    }

    fn play_until(&mut self, end: Time) {
        loop {
            self.poll_ready();
            self.check();
            if self.monitor.lock().unwrap().violation.is_some() {
                return;
            }
            let mut world = self.world.lock().unwrap();
            let Some(event) = world.pop_until(end) else { return };
            drop(world);
            self.apply(event);
        }
    }

    fn check(&self) {
        let world = self.world.lock().unwrap();
        let mut monitor = self.monitor.lock().unwrap();
        let (now, paused) = (world.now, monitor.paused_until.clone());
        if world.storm {
            monitor.fail("storm: the same delete repeatedly".to_owned());
        }
        if world.garbled {
            monitor.fail("garbled: bytes that are not a request".to_owned());
        }
        monitor.check(now, |client| now >= paused[client] && !world.dead[client]);
    }

    pub(super) fn check_progress(&self) {
        let declines = self.declines();
        let mut world = self.world.lock().unwrap();
        world.declines = declines;
        let mut monitor = self.monitor.lock().unwrap();
        let (now, paused) = (world.now, monitor.paused_until.clone());
        monitor.check_progress(&world, |client| {
            now >= paused[client] + CHECK_INTERVAL && !world.dead[client]
        });
        world.at(now + CHECK_INTERVAL, Event::CheckProgress);
    }

    /// Whether each client's node declines first votes now, by its own word.
    fn declines(&self) -> Vec<Vec<bool>> {
        let declines =
            |node: &Weak<dyn Node>| node.upgrade().is_some_and(|node| node.guarded("a").is_some());
        let client = |nodes: &Vec<Weak<dyn Node>>| nodes.iter().map(declines).collect();
        self.nodes.iter().map(client).collect()
    }

    /// From now on, this thread runs a task of the client.
    pub(super) fn enter(&self, client: usize) {
        simulated::enter(Some(Arc::clone(&self.environments[client]) as Arc<dyn Environment>));
    }

    pub(super) fn pauses(&self, client: usize) -> bool {
        self.now() < self.monitor.lock().unwrap().paused_until[client]
    }

    fn poll_ready(&mut self) {
        loop {
            let spawned = std::mem::take(&mut *self.spawned.lock().unwrap());
            for spawned in spawned {
                match spawned {
                    Spawned::Task(client, task) => self.spawn(client, task),
                    Spawned::HandOver(client, token, how, before) => {
                        if let Some(client) = self.clients[client].clone() {
                            self.spawn(client.id, continued(client, token, how, Some(before)));
                        }
                    }
                }
            }
            let Some(id) = self.queue.lock().unwrap().pop_front() else { return };
            let Some((client, mut task, waker)) = self.tasks.remove(&id) else { continue };
            if self.pauses(client) {
                self.tasks.insert(id, (client, task, waker));
                self.parked.push(id);
                continue;
            }
            self.enter(client);
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.tasks.insert(id, (client, task, waker));
            }
        }
    }

    /// Lets every remaining client acquire every lock after all failures are over. A stuck queue would be noticed.
    fn probe(&mut self) {
        let now = self.now();
        for client in self.clients.clone().into_iter().flatten() {
            let how = Use { names: vec!["a", "b"], wait: Some(20_000), must: true, ..plain(1000) };
            let pool = Use { names: vec![POOL], permits: LIMIT, ..how.clone() };
            if self.scenario.has_semaphore() {
                self.spawn(client.id, lock(client.clone(), pool));
            }
            self.spawn(client.id, lock(client, how));
        }
        self.world.lock().unwrap().at(now, Event::Resume(0));
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        // Dropping a task sends deletes into the world, so the tasks are dropped while the world still exists.
        for client in 0..self.environments.len() {
            self.enter(client);
            self.tasks.retain(|_, (owner, ..)| *owner != client);
            self.clients[client] = None;
        }
        self.spawned.lock().unwrap().clear();
        simulated::enter(None);
    }
}
