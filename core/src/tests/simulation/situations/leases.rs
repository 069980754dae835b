//! Situations about leases: nested, granted late, shortened, shared by two holders, handed over, released early.

use fastrand::Rng;

use super::super::action::{Action, Also, End, Use};
use super::super::generator::{pick, plain};
use super::super::scenario::Scenario;
use super::{Scene, usual};

impl Scenario {
    /// The holder of "a" acquires "b" while other tasks of the same client wait for both.
    pub(super) fn nested(&self, rng: &mut Rng, scene: &mut Scene) {
        let client = self.some(rng).0;
        let wait = pick(rng, &[None, None, Some(5000)]);
        let inner = Use { names: vec!["b"], wait, hold: rng.u64(..300), ..plain(1000) };
        let also = Also::Nested(Box::new(inner));
        scene.lock(0, client, Use { hold: rng.u64(20..1500), also, ..plain(1000) });
        for _ in 0..rng.u8(1..=3) {
            let names = pick(rng, &[&["a", "b"][..], &["b", "a"]]).to_vec();
            let client = if rng.u8(..4) == 0 { self.some(rng).0 } else { client };
            let cancel = (rng.u8(..6) == 0).then(|| rng.u64(..2000));
            scene.lock(rng.u64(1..700), client, Use { names, cancel, ..usual(rng) });
        }
        if rng.bool() {
            self.others(rng, scene, 1500);
        }
    }

    /// A round takes most of its TTL because of slow links or a pause. The client holds another lease meanwhile.
    pub(super) fn slow_round(&self, rng: &mut Rng, scene: &mut Scene) {
        let (client, node) = self.some(rng);
        let ttl = pick(rng, &[500, 1000, 2000]);
        let names = vec!["b"];
        let other = plain(self.at_most(pick(rng, &[300, 2000, 4000, 8000])));
        scene.lock(0, client, Use { names, hold: 6000, ..other });
        let at = rng.u64(100..1500);
        let timeout = (rng.bool()).then(|| rng.u64(ttl / 2..ttl));
        let (node_timeout, most) = (timeout, ttl * 9 / 10);
        let how = Use { node_timeout, hold: rng.u64(..2 * ttl), end: End::Keep, ..plain(ttl) };
        scene.lock(at, client, how);
        let late = rng.u64(most / 2..most);
        if timeout.is_some() {
            for node in 0..self.nodes.len() {
                scene.add(at - 1, Action::Slow { client, node, by: late, ms: rng.u64(2..60) });
            }
        } else {
            scene.add(at, Action::Pause { client, ms: late });
        }
        for gone in 0..self.nodes.len() {
            if rng.bool() {
                let node = (node + gone) % self.nodes.len();
                scene.add(at + late + rng.u64(..40), Action::Cut { client, node, ms: 2 * ttl });
            }
        }
        self.others(rng, scene, at + ttl);
    }

    /// The TTL of a lease becomes shorter than a vote may take, and one node does not reply.
    pub(super) fn shorter(&self, rng: &mut Rng, scene: &mut Scene) {
        let (client, node) = self.some(rng);
        let ttl = pick(rng, &[1000, 2000]);
        let node_timeout = Some(rng.u64(ttl / 5..ttl));
        let extend = Some(rng.u64(200..ttl));
        let how = Use { node_timeout, extend, hold: rng.u64(200..6000), ..plain(ttl) };
        scene.lock(0, client, how);
        scene.add(rng.u64(..600), Action::Stop { node, ms: rng.u64(1000..8000) });
        self.others(rng, scene, 4000);
    }

    /// Two leases of one token in one client that end at different times.
    pub(super) fn second_lease(&self, rng: &mut Rng, scene: &mut Scene) {
        let end = |rng: &mut Rng| {
            pick(rng, &[&End::Release, &End::Release, &End::Drop, &End::Detach, &End::Keep]).clone()
        };
        let max_hold = (rng.u8(..4) == 0).then(|| rng.u64(100..2000));
        let ttl = pick(rng, &[500, 1000, 2000]);
        let second = Use { hold: rng.u64(..3000), max_hold, end: end(rng), ..plain(ttl) };
        let also = Also::Second(Box::new(second));
        let hold = rng.u64(..3000);
        scene.lock(0, self.some(rng).0, Use { hold, also, end: end(rng), ..plain(ttl) });
        self.others(rng, scene, 2000);
    }

    /// Many tasks of a client acquire, renew and release locks at the same time, again and again. Their commands are
    /// combined. Some locks are held by another library.
    pub(super) fn crowd(&self, rng: &mut Rng, scene: &mut Scene) {
        // A cluster's client combines no commands, and its servers have no other slots.
        const NAMES: [&str; 6] = ["c", "d", "e", "f", "g", "h"];
        let names = if self.shards > 1 { &NAMES[..0] } else { &NAMES[..] };
        let client = self.some(rng).0;
        let (hold, ttl) = (rng.u64(..1500), pick(rng, &[300, 1000, 2000]));
        let extend = rng.bool().then_some(1000);
        for name in names {
            let how = Use { names: vec![*name], hold, extend, wait: Some(3000), ..plain(ttl) };
            scene.add(0, Action::Again { client, how, turns: rng.u32(1..=4) });
            if rng.u8(..4) == 0 {
                let (node, ttl) = (rng.usize(..self.nodes.len()), Some(rng.u64(1..3000)));
                scene.add(rng.u64(..2000), Action::Foreign { node, name, ttl });
            }
        }
        self.others(rng, scene, 2000);
    }

    /// Another client continues the lease, and the first client ends its own without a release.
    pub(super) fn handed_over(&self, rng: &mut Rng, scene: &mut Scene) {
        let max_hold = (rng.u8(..4) == 0).then(|| rng.u64(100..2000));
        let next = Use { hold: rng.u64(..3000), max_hold, ..usual(rng) };
        let also = Also::HandOver(self.some(rng).0, Box::new(next));
        let how = Use { also, end: End::Detach, ..usual(rng) };
        scene.lock(0, self.some(rng).0, how);
        self.others(rng, scene, 2000);
    }

    /// All leases of a client are released while their holders run, or the client is shut down.
    pub(super) fn released_early(&self, rng: &mut Rng, scene: &mut Scene) {
        let (client, node) = self.some(rng);
        for _ in 0..rng.u8(1..=4) {
            let end = pick(rng, &[&End::Release, &End::Drop, &End::Keep]).clone();
            let names = pick(rng, &[&["a"][..], &["b"], &["a", "b"]]).to_vec();
            let how = Use { names, end, hold: rng.u64(..3000), ..usual(rng) };
            scene.lock(rng.u64(..1500), client, how);
        }
        if rng.bool() {
            scene.add(rng.u64(..1500), Action::Cut { client, node, ms: rng.u64(1..2000) });
        }
        let at = rng.u64(..1500);
        if rng.bool() {
            scene.add(at, Action::ReleaseAll { client });
        } else {
            scene.add(at, Action::Shutdown { client, ms: pick(rng, &[0, 300, 3000]) });
        }
        self.others(rng, scene, 2000);
    }
}
