//! Applies events and the steps of the scenario to the world of a run.

use std::task::Waker;

use super::action::Action;
use super::play::Player;
use super::scenario::Promise;
use super::usage::{again, later, lock, release_all, shutdown};
use super::world::{Event, MS, World};

impl Player<'_> {
    pub(super) fn apply(&mut self, event: Event) {
        let mut world = self.world.lock().unwrap();
        match event {
            Event::Wake(id) => {
                let waker = world.take_waker(id);
                drop(world);
                waker.into_iter().for_each(Waker::wake);
            }
            Event::Arrive { conn, bytes, held } => world.arrive(conn, bytes, held),
            Event::Back { conn, bytes } => world.arrive_back(conn, &bytes),
            Event::Closed { conn } => world.closed(conn),
            Event::Hangup { conn } => world.conns[conn].alive = false,
            Event::Thaw { conn } => world.thaw(conn),
            Event::SentinelLearns { node, index, address } => {
                world.sentinel_learns(node, index, address);
            }
            Event::Migrates { stage, from, to, length } => world.migrates(stage, from, to, length),
            Event::Replicated { .. }
            | Event::Acked { .. }
            | Event::Waited { .. }
            | Event::Resync { .. } => world.replication(event),
            Event::CheckProgress => {
                drop(world);
                self.check_progress();
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
            Action::Again { client, ref how, turns } => {
                drop(world);
                if let Some(client) = self.clients[client].clone() {
                    let (id, how) = (client.id, how.clone());
                    self.spawn(id, again(client, how, turns));
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
                self.enter(client);
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
                // No task acquires from it any more.
                if let Some(client) = self.clients[client].take() {
                    self.spawn(client.id, shutdown(client, ms));
                }
            }
            Action::Cut { client, node, ms } => world.cut(client, node, ms * MS),
            Action::Vanish { client, node } => world.vanish(client, node),
            Action::Close { client, node } => world.close_one(client, node),
            Action::Refuse { node, refusal, ms } => world.refuse(node, refusal, ms * MS),
            Action::Slow { client, node, by, ms } => world.slow(client, node, by * MS, ms * MS),
            Action::Stop { node, ms } => {
                let server = &mut world.servers[node];
                server.paused_until = server.paused_until.max(now + ms * MS);
            }
            Action::Crash { node, keep, down } => Self::crash(&mut world, node, keep, down),
            Action::Migrate { node, shard, ms } => world.migrate(node, shard, ms * MS),
            Action::FailOver { node, shard, stale, cut } => {
                world.fail_over(node, shard, stale * MS, cut * MS);
            }
            Action::Isolate { node, replica, ms } => world.isolate(node, replica, ms * MS),
            Action::Lag { node } => world.servers[node].lag(),
            Action::Switch { node, stale, down } => world.switch(node, stale * MS, down * MS),
            Action::Delete { node, name } => {
                let pushes = world.servers[node].delete(Some(name));
                world.send_pushes(node, pushes);
            }
            Action::Foreign { node, name, ttl } => {
                let pushes = world.servers[node].foreign(name, ttl, now);
                world.send_pushes(node, pushes);
            }
            Action::WrongToken { node, fence, stored: false } => {
                world.servers[node].wrong_token = Some(fence);
            }
            Action::WrongToken { node, fence, stored: true } => {
                let fences = ["a", "b"].map(|name| crate::node::fence_key(name).unwrap());
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
                // Replies that a paused client has not read yet may count too.
                let paused = &self.monitor.lock().unwrap().paused_until;
                let paused = paused.iter().any(|until| now < *until);
                if careful && (paused || !world.survives_flush(node, &valid, &self.outstanding)) {
                    return;
                }
                let pushes = world.servers[node].delete(None);
                world.send_pushes(node, pushes);
            }
        }
    }

    /// Deletes the keys of "a" on every running node, or lets a client do it. The holder must be notified.
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
                let pushes = world.servers[node].delete(Some("a"));
                world.send_pushes(node, pushes);
            }
        }
    }

    /// The node is down for a while. Its connections break immediately or when they are next used.
    fn crash(world: &mut World, node: usize, keep: bool, down: u64) {
        let back = world.now + down * MS;
        let server = &mut world.servers[node];
        server.incarnation += 1;
        server.restart(back);
        // The node runs no request before it is back. Its old incarnation refuses earlier ones.
        server.paused_until = server.paused_until.max(back);
        if !keep {
            server.lose_data();
        }
        let incarnation = server.incarnation;
        if !server.replicas.is_empty() {
            world.at(back + world.latency, Event::Resync { node, incarnation });
        }
        for client in 0..world.clocks.len() {
            if !world.dead[client] {
                world.cut(client, node, down * MS);
            }
        }
    }
}
