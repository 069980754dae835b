//! Failovers, and the events that lead to them.

use fastrand::Rng;

use super::action::{Action, End, Step, Use};
use super::clock::Time;
use super::generator::{pick, plain};
use super::scenario::{BEGIN, Scenario};
use super::world::MS;

impl Scenario {
    /// A failover and the events that lead to it. With `lost`, the last writes may be lost and the old server may run
    /// on briefly.
    pub(super) fn switch(&self, rng: &mut Rng, at: Time, lost: bool) -> Vec<Step> {
        if lost && rng.bool() {
            let node = rng.usize(..self.nodes.len());
            return self.minority_missed(rng, at, node, 0);
        }
        let (node, mut steps) = (rng.usize(..self.nodes.len()), Vec::new());
        let longest = [20, 300, 2000].map(|ms| rng.u64(1..ms));
        let (lag, late) = (pick(rng, &longest), pick(rng, &longest));
        if lost && rng.u8(..4) != 0 {
            steps.push(Step {
                at: at.saturating_sub(lag * MS).max(BEGIN),
                action: Action::Lag { node },
            });
        }
        let stale = if lost { late } else { 0 };
        let down = pick(rng, &longest);
        steps.push(Step { at, action: Action::Switch { node, stale, down } });
        steps
    }

    /// A cluster's master fails over. It never fails over to a former master, because a client that missed both
    /// failovers would not notice them (docs/operate/cluster.md).
    pub(super) fn fail_over(&self, rng: &mut Rng, at: Time) -> Vec<Step> {
        let node = rng.usize(..self.nodes.len());
        let before = |step: &&Step| matches!(step.action, Action::FailOver { node: other, .. } if other == node);
        let shard = 1 + self.steps.iter().filter(before).count();
        if shard >= self.shards {
            return Vec::new();
        }
        if rng.bool() {
            return self.minority_missed(rng, at, node, shard);
        }
        let mut steps = Vec::new();
        let longest = [20, 300, 2000].map(|ms| rng.u64(1..ms));
        let (lag, stale) = (pick(rng, &longest), pick(rng, &longest));
        if rng.u8(..4) != 0 {
            let at = at.saturating_sub(lag * MS).max(BEGIN);
            steps.push(Step { at, action: Action::Lag { node } });
        }
        let cut = [1, 500, 20_000][rng.usize(..3)];
        steps.push(Step { at, action: Action::FailOver { node, shard, stale, cut } });
        steps
    }

    /// A failover of a server whose replicas were unreachable for a while.
    pub(super) fn confirmed_switch(&self, rng: &mut Rng, at: Time) -> Vec<Step> {
        let longest = [20, 300, 2000, 4000].map(|ms| rng.u64(1..ms));
        let (node, mut steps) = (rng.usize(..self.nodes.len()), Vec::new());
        for replica in 0..self.replicas.0 {
            if rng.u8(..4) != 0 {
                let (lag, more) = (pick(rng, &longest), rng.u64(..300));
                let at = at.saturating_sub(lag * MS).max(BEGIN);
                steps.push(Step { at, action: Action::Isolate { node, replica, ms: lag + more } });
            }
        }
        let (stale, down) = (pick(rng, &longest), pick(rng, &longest));
        if rng.u8(..4) != 0 {
            steps.push(Step { at, action: Action::Switch { node, stale, down } });
        }
        steps
    }

    /// A client has its lease on a bare quorum, because it cannot reach the other nodes. One server of that quorum is
    /// replaced, in a cluster by this `shard`. Either the new server lacks the grant, or the old one still serves
    /// another client when its key has expired there.
    fn minority_missed(&self, rng: &mut Rng, at: Time, node: usize, shard: usize) -> Vec<Step> {
        let (nodes, mut steps) = (self.nodes.len(), Vec::new());
        let mut add = |ms: u64, action| steps.push(Step { at: at + ms * MS, action });
        let holder = self.some(rng).0;
        for missed in 1..=(nodes - 1) / 2 {
            let others = ((node + missed) % nodes..nodes * self.shards).step_by(nodes);
            others.for_each(|node| add(0, Action::Cut { client: holder, node, ms: 3500 }));
        }
        let is_lost = rng.bool();
        let ttl = self.at_most(pick(rng, if is_lost { &[1000, 2000, 8000] } else { &[200, 500] }));
        let how = Use { end: End::Keep, wait: Some(500), ..plain(ttl) };
        add(10, Action::Lock { client: holder, how });
        let replaced = rng.u64(100..500);
        let stale = if is_lost { rng.u64(1..100) } else { rng.u64(500..2000) };
        if is_lost {
            add(rng.u64(..10), Action::Lag { node });
        }
        if shard > 0 {
            add(replaced, Action::FailOver { node, shard, stale, cut: 500 });
        } else {
            add(replaced, Action::Switch { node, stale, down: rng.u64(1..20) });
        }
        // The holder notices it early, and the other client late.
        let server = node + shard.saturating_sub(1) * nodes;
        let noticed = replaced + rng.u64(1..100);
        add(noticed, Action::Cut { client: holder, node: server, ms: rng.u64(1..20) });
        let client = (holder + 1) % self.clients.len();
        add(rng.u64(10..2000), Action::Lock { client, how: plain(500) });
        steps
    }
}
