//! Events that only one promise allows: migrations of slots, and deletes and flushes by hand.

use fastrand::Rng;

use super::action::{Action, End, Step, Use};
use super::clock::Time;
use super::generator::{pick, plain, some_time};
use super::scenario::{BEGIN, Promise, Scenario};
use super::world::MS;

impl Scenario {
    pub(super) fn unguaranteed_events(&mut self, rng: &mut Rng, length: u64, amnesia: bool) {
        let nodes = self.nodes.len();
        for _ in 0..4 {
            let at = some_time(rng, length);
            let everywhere = |action: &dyn Fn(usize) -> Action, nodes: usize| {
                (0..nodes).map(|node| Step { at, action: action(node) }).collect::<Vec<_>>()
            };
            let steps = match self.promise {
                Promise::KeysAreDeleted | Promise::TokensDespiteDeletes => {
                    let name = ["a", "b"][rng.usize(..2)];
                    everywhere(&|node| Action::Delete { node, name }, nodes)
                }
                Promise::NodesAreFlushed => {
                    everywhere(&|node| Action::Flush { node }, nodes / 2 + 1)
                }
                Promise::FlushesAreSurvived => {
                    let node = rng.usize(..nodes);
                    vec![Step { at, action: Action::Flush { node } }]
                }
                Promise::SlotsMove => self.migrations(rng, at),
                Promise::ClustersFailOver => self.fail_over(rng, at),
                Promise::ReplicasConfirm => self.confirmed_switch(rng, at),
                Promise::ServersChange | Promise::LastWritesAreLost => {
                    let lost = amnesia || self.promise == Promise::LastWritesAreLost;
                    self.switch(rng, at, lost)
                }
                Promise::Kept | Promise::NoGuard | Promise::ForceReleased => Vec::new(),
            };
            self.steps.extend(steps);
        }
    }

    /// A slot moves to another server, and possibly to a third one or back. The links of clients may be slow meanwhile.
    fn migrations(&self, rng: &mut Rng, at: Time) -> Vec<Step> {
        match rng.u8(..9) {
            0..3 => return self.overtaken(rng, at),
            3 => return Self::late_redirected_vote(rng, at),
            _ => {}
        }
        let (client, node) = (self.some(rng).0, rng.usize(..self.nodes.len()));
        let (mut steps, mut at) = (Vec::new(), at);
        for _ in 0..rng.u8(1..=3) {
            let (shard, longest) = (rng.usize(..self.shards), pick(rng, &[3, 40, 600]));
            let ms = rng.u64(1..=longest);
            steps.push(Step { at, action: Action::Migrate { node, shard, ms } });
            if rng.bool() {
                let node = node + rng.usize(..self.shards) * self.nodes.len();
                let before = at.saturating_sub(rng.u64(0..60) * MS).max(BEGIN);
                let by = pick(rng, &[20, 200, 900]);
                let (by, ms) = (rng.u64(1..=by), rng.u64(1..100));
                steps.push(Step { at: before, action: Action::Slow { client, node, by, ms } });
            }
            for _ in 0..rng.u8(..3) {
                let at = at.saturating_sub(rng.u64(0..40) * MS).max(BEGIN);
                let cancel = rng.bool().then(|| rng.u64(..60));
                let hold = rng.u64(..300);
                let how = Use { wait: Some(rng.u64(..1000)), cancel, hold, ..plain(1000) };
                steps.push(Step { at, action: Action::Lock { client: self.some(rng).0, how } });
            }
            at += (ms + rng.u64(0..20)) * MS;
        }
        steps
    }

    /// A redirected vote is slow. When it arrives, its slot has left that server and is being migrated to it again.
    fn late_redirected_vote(rng: &mut Rng, at: Time) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut add = |ms: u64, action| steps.push(Step { at: at + ms * MS, action });
        add(0, Action::Migrate { node: 0, shard: 0, ms: 3 });
        let waits = Use { hold: 2000, end: End::Keep, wait: Some(1000), ..plain(2000) };
        add(100, Action::Lock { client: 0, how: waits.clone() });
        add(200, Action::Slow { client: 1, node: 1, by: rng.u64(100..350), ms: 90 });
        add(210, Action::Migrate { node: 0, shard: 1, ms: rng.u64(20..40) });
        add(rng.u64(210..240), Action::Lock { client: 1, how: waits });
        add(rng.u64(250..300), Action::Migrate { node: 0, shard: 0, ms: 3 });
        add(rng.u64(300..340), Action::Migrate { node: 0, shard: 1, ms: 600 });
        steps
    }

    /// A vote is in flight for longer than the slot stays on its server and for longer than the caller waits. Meanwhile
    /// the client learns of the slot's new owner, because another connection ends.
    fn overtaken(&self, rng: &mut Rng, at: Time) -> Vec<Step> {
        let (client, node) = (self.some(rng).0, rng.usize(..self.nodes.len()));
        let mut steps = Vec::new();
        let mut add = |ms: u64, action| steps.push(Step { at: at + ms * MS, action });
        let place = |shard: usize| node + shard * self.nodes.len();
        let (here, there) = (rng.usize(..self.shards), rng.usize(..self.shards));
        let by = rng.u64(200..700);
        add(0, Action::Migrate { node, shard: here, ms: 3 });
        add(200, Action::Slow { client, node: place(here), by, ms: 20 });
        let cancel = Some(rng.u64(40..120));
        let how = Use { wait: Some(2000), cancel, ..plain(8000) };
        add(rng.u64(201..220), Action::Lock { client, how });
        add(rng.u64(200..225), Action::Migrate { node, shard: there, ms: 3 });
        add(rng.u64(210..250), Action::Cut { client, node: place(there), ms: 1 });
        if rng.bool() {
            add(rng.u64(260..400), Action::Migrate { node, shard: here, ms: 3 });
        }
        steps
    }

    /// A long lease whose keys are deleted by hand, and a client that acquires the lock afterwards.
    pub(super) fn force_released(&mut self, rng: &mut Rng, length: u64) {
        let ttl = rng.u64(3_000..20_000);
        let holder = Use { hold: 15_000, end: End::Drop, ..plain(ttl) };
        self.steps.push(Step { at: BEGIN, action: Action::Lock { client: 0, how: holder } });
        // A minority of nodes is down by then, each in a different way, and keeps the key.
        let spare = (self.nodes.len() - 1) / 2;
        for node in 0..rng.usize(..=spare) {
            let ms = 30_000;
            let action = match rng.u8(..3) {
                0 => Action::Stop { node, ms },
                1 => Action::Crash { node, keep: true, down: ms },
                _ => Action::Cut { client: 0, node, ms },
            };
            self.steps.push(Step { at: BEGIN + rng.u64(300..500) * MS, action });
        }
        let how = Use { wait: Some(1500), must: true, ..plain(1000) };
        let (client, after) = (1, rng.u64(0..1000));
        let at = some_time(rng, length) + 500 * MS;
        let by_force = rng.bool();
        self.steps.push(Step { at, action: Action::Free { client, after, by_force, how } });
    }
}
