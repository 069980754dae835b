//! Plays a scenario: one thread, virtual time, every task polled by us.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use crate::client::Redlock;
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::{Engine, Running};
use crate::node::{Change, Durability, Node};

use super::chance::plain;
use super::clock::{ClientClock, Time};
use super::monitor::Monitor;
use super::network::Link;
use super::progress::LOOK;
use super::scenario::{Action, BEGIN, Promise, Scenario, Use};
use super::server::Server;
use super::simulated::SimulatedNode;
use super::usage::{Client, Spawned, continued, later, lock, release_all, shutdown};
use super::world::{Event, MS, World};

pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Ready {
    id: usize,
    queue: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut queue = self.queue.lock().unwrap();
        if !queue.contains(&self.id) {
            queue.push_back(self.id);
        }
    }
}

struct Player<'a> {
    scenario: &'a Scenario,
    world: Arc<Mutex<World>>,
    monitor: Arc<Mutex<Monitor>>,
    clients: Vec<Option<Client>>,
    tasks: BTreeMap<usize, (usize, Task, Waker)>,
    next: usize,
    queue: Arc<Mutex<VecDeque<usize>>>,
    spawned: Arc<Mutex<Vec<Spawned>>>,
    parked: Vec<usize>,
}

/// Plays to the end; the first broken promise, if there is one.
pub(super) fn play(scenario: &Scenario) -> Result<usize, String> {
    Player::new(scenario, false).run().0
}

/// Everything that happened, a line each.
pub(super) fn trace(scenario: &Scenario) -> Vec<String> {
    Player::new(scenario, true).run().1
}

impl<'a> Player<'a> {
    fn new(scenario: &'a Scenario, tracing: bool) -> Self {
        fastrand::seed(scenario.seed);
        let mut world = World::new(scenario.seed, scenario.latency, scenario.guard, scenario.kills);
        (world.now, world.tracing) = (BEGIN, tracing);
        for &(ppm, offset_us) in &scenario.nodes {
            world.servers.push(Server::new(ppm, offset_us));
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
            parked: Vec::new(),
        };
        for id in 0..scenario.clients.len() {
            player.start_client(id);
        }
        let mut world = player.world.lock().unwrap();
        for (at, step) in scenario.steps.iter().enumerate() {
            world.at(step.at, Event::Step(at));
        }
        world.at(BEGIN + LOOK, Event::Look);
        drop(world);
        player
    }

    fn start_client(&mut self, id: usize) {
        let clock = ClientClock { world: Arc::clone(&self.world), rate: self.scenario.clients[id] };
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let mut watched = None;
        let count = self.scenario.nodes.len();
        let (running, watching) = Running::assemble(&shared, |watch| {
            watched = Some(Arc::clone(watch));
            let node = |node| -> Arc<dyn Node> {
                let url = format!("node://{node}");
                Arc::new(SimulatedNode { world: Arc::clone(&self.world), client: id, node, url })
            };
            (0..count).map(node).collect()
        });
        let config = Config {
            nodes: Vec::new(),
            key_prefix: String::new(),
            node_timeout: None,
            guard: self.scenario.guard,
            durability: Durability::default(),
            clock: shared,
        };
        let mut world = self.world.lock().unwrap();
        world.links.push((0..count).map(|_| Link::default()).collect());
        world.watches.push(watched);
        world.dead.push(false);
        for node in 0..count {
            world.connect(id, node, 0);
        }
        drop(world);
        let redlock = Redlock::over(Engine::over(config, running));
        let (monitor, spawned) = (Arc::clone(&self.monitor), Arc::clone(&self.spawned));
        let fencing = self.scenario.fencing;
        self.clients.push(Some(Client { id, redlock, clock, monitor, spawned, fencing }));
        self.spawn(id, watching);
    }

    fn spawn(&mut self, client: usize, task: Task) {
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
        self.probe();
        let end = self.now() + 30_000 * MS;
        self.play_until(end);
        let mut monitor = self.monitor.lock().unwrap();
        let result = monitor.violation.take().map_or(Ok(monitor.grants), Err);
        drop(monitor);
        let trace = std::mem::take(&mut self.world.lock().unwrap().trace);
        (result, trace)
    }

    fn play_until(&mut self, end: Time) {
        loop {
            self.poll_ready();
            self.check();
            if self.monitor.lock().unwrap().violation.is_some() {
                return;
            }
            let mut world = self.world.lock().unwrap();
            let Some(event) = world.pop() else {
                world.now = world.now.max(end);
                return;
            };
            if world.now > end {
                let now = world.now;
                world.at(now, event);
                return;
            }
            drop(world);
            self.apply(event);
        }
    }

    fn check(&self) {
        let world = self.world.lock().unwrap();
        let mut monitor = self.monitor.lock().unwrap();
        let (now, paused) = (world.now, monitor.paused_until.clone());
        monitor.check(now, |client| now >= paused[client] && !world.dead[client]);
    }

    fn look(&self) {
        let mut world = self.world.lock().unwrap();
        let mut monitor = self.monitor.lock().unwrap();
        let (now, paused) = (world.now, monitor.paused_until.clone());
        monitor.look(&world, |client| now >= paused[client] + LOOK && !world.dead[client]);
        world.at(now + LOOK, Event::Look);
    }

    fn pauses(&self, client: usize) -> bool {
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
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.tasks.insert(id, (client, task, waker));
            }
        }
    }

    fn apply(&mut self, event: Event) {
        let mut world = self.world.lock().unwrap();
        match event {
            Event::Wake(id) => {
                let waker = world.take_waker(id);
                drop(world);
                waker.into_iter().for_each(Waker::wake);
            }
            Event::Arrive { .. } => world.arrive(event),
            Event::Thaw(node) => world.thaw(node),
            Event::Answer { client, node, epoch, id, answer } => {
                world.answered(client, node, epoch, id, answer);
            }
            Event::Push { client, node, epoch, key } => {
                if world.is_current(client, node, epoch)
                    && let Some(watch) = &world.watches[client]
                {
                    watch.changed(Change::Key(key));
                }
            }
            Event::Broken { client, node, epoch } => {
                if world.is_current(client, node, epoch) {
                    world.cut(client, node, 20 * MS);
                }
            }
            Event::Silent { client, node, epoch, id } => world.silent(client, node, epoch, id),
            Event::Look => {
                drop(world);
                self.look();
            }
            Event::Connect { client, node, epoch } => world.connect(client, node, epoch),
            Event::Heard { client, node, epoch, down } => {
                if world.is_current(client, node, epoch) {
                    world.cut(client, node, down);
                }
            }
            Event::Resume(client) => {
                drop(world);
                if !self.pauses(client) {
                    self.queue.lock().unwrap().extend(self.parked.drain(..));
                }
            }
            Event::Step(at) => {
                drop(world);
                self.step(&self.scenario.steps[at].action.clone());
            }
        }
    }

    fn step(&mut self, action: &Action) {
        let mut world = self.world.lock().unwrap();
        world.log(|| format!("{action:?}"));
        let now = world.now;
        match *action {
            Action::Lock { client, ref how } => {
                drop(world);
                if let Some(client) = self.clients[client].clone() {
                    let (id, how) = (client.id, how.clone());
                    self.spawn(id, lock(client, how));
                }
            }
            Action::Pause { client, ms } => {
                let until = now + ms * MS;
                world.at(until, Event::Resume(client));
                self.monitor.lock().unwrap().pause(client, now, until);
            }
            Action::CrashClient { client } => {
                world.dead[client] = true;
                drop(world);
                self.monitor.lock().unwrap().client_gone(client);
                self.clients[client] = None;
                self.tasks.retain(|_, (owner, ..)| *owner != client);
            }
            Action::ReleaseAll { client } => {
                drop(world);
                if let Some(client) = self.clients[client].clone() {
                    self.spawn(client.id, release_all(client));
                }
            }
            Action::Shutdown { client, ms } => {
                drop(world);
                // Nobody acquires from it any more.
                if let Some(client) = self.clients[client].take() {
                    self.spawn(client.id, shutdown(client, ms));
                }
            }
            Action::Cut { client, node, ms } => world.cut(client, node, ms * MS),
            Action::Slow { client, node, by, ms } => world.slow(client, node, by * MS, ms * MS),
            Action::Stop { node, ms } => {
                let server = &mut world.servers[node];
                server.paused_until = server.paused_until.max(now + ms * MS);
            }
            Action::Crash { node, keep, down } => Self::crash(&mut world, node, keep, down),
            Action::Lag { node } => world.servers[node].lag(),
            Action::Switch { node, stale, down } => world.switch(node, stale * MS, down * MS),
            Action::Delete { node, name } => {
                let told = world.servers[node].delete(Some(name), false);
                world.tell(node, told);
            }
            Action::Foreign { node, name, ttl } => {
                let told = world.servers[node].foreign(name, ttl, now);
                world.tell(node, told);
            }
            Action::Lie { node, fence, stored: false } => world.servers[node].lie = Some(fence),
            Action::Lie { node, fence, stored: true } => {
                let fences = ["a", "b"].map(|name| crate::acquire::fence_key(name).unwrap());
                fences.iter().for_each(|key| world.servers[node].poison(key, fence));
            }
            Action::Free { client, after, by_force, ref how } => {
                self.free(&mut world, by_force);
                drop(world);
                if let Some(client) = self.clients[client].clone() {
                    self.spawn(client.id, later(client, after, by_force, how.clone()));
                }
            }
            Action::Flush { node } => {
                let valid = self.monitor.lock().unwrap().valid(now);
                let careful = self.scenario.promise == Promise::FlushesAreSurvived;
                // Answers that a paused client has not read yet may count, too.
                let paused = &self.monitor.lock().unwrap().paused_until;
                let paused = paused.iter().any(|until| now < *until);
                if careful && (paused || !world.survives_flush(node, &valid)) {
                    return;
                }
                let told = world.servers[node].delete(None, true);
                world.tell(node, told);
            }
        }
    }

    /// Deletes the keys of "a" on every node that runs, or has a client do so; who holds it must be told of it.
    fn free(&self, world: &mut World, by_force: bool) {
        let now = world.now;
        let lives = |world: &World, node: usize| now >= world.servers[node].paused_until;
        let mut monitor = self.monitor.lock().unwrap();
        let due = now + 2_500 * MS;
        monitor.deleted("a", due, |record| {
            (0..world.servers.len())
                .all(|node| !lives(world, node) || world.sound(record.client, node, now))
        });
        for node in 0..world.servers.len() {
            if !by_force && lives(world, node) {
                let told = world.servers[node].delete(Some("a"), false);
                world.tell(node, told);
            }
        }
    }

    /// Down for a while, then up again: connections to it break when they are next used, or at once.
    fn crash(world: &mut World, node: usize, keep: bool, down: u64) {
        let back = world.now + down * MS;
        let server = &mut world.servers[node];
        server.incarnation += 1;
        server.restart(back);
        // Nothing is carried out before it is back; who asks earlier is refused by its old incarnation.
        server.paused_until = server.paused_until.max(back);
        if !keep {
            server.lose_data();
        }
        for client in 0..world.clocks.len() {
            if !world.dead[client] {
                world.cut(client, node, down * MS);
            }
        }
    }

    /// After all faults are over, every client that is left gets every lock: no queue is stuck.
    fn probe(&mut self) {
        let now = self.now();
        for client in self.clients.clone().into_iter().flatten() {
            let how = Use { names: vec!["a", "b"], wait: Some(20_000), must: true, ..plain(1000) };
            self.spawn(client.id, lock(client, how));
        }
        self.world.lock().unwrap().at(now, Event::Resume(0));
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        // Tasks hold the world; ended here, they can still send into it.
        self.tasks.clear();
        self.clients.clear();
        self.world.lock().unwrap().watches.clear();
    }
}
