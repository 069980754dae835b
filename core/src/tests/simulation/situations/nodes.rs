//! Nodes that fail, or to which other programs write, while a lock changes hands.

use fastrand::Rng;

use super::super::action::{Action, Use};
use super::super::generator::{REFUSALS, pick, plain};
use super::super::scenario::Scenario;
use super::super::server::EPOCH_US;
use super::{Scene, usual};

impl Scenario {
    /// Keys of another library on a minority of nodes while a lock changes hands.
    pub(super) fn foreign(&self, rng: &mut Rng, scene: &mut Scene) {
        let spare = (self.nodes.len() - 1) / 2;
        // Begins with a fixed node, so that two such situations affect the same minority.
        let first = usize::from(!self.kills);
        for more in 0..rng.usize(..=spare) {
            let node = (first + more) % self.nodes.len();
            let ttl = pick(rng, &[None, Some(60_000), Some(300)]);
            for name in [&["a"][..], &["b"], &["a", "b"]][rng.usize(..3)] {
                scene.add(rng.u64(..100), Action::Foreign { node, name, ttl });
            }
        }
        let names = pick(rng, &[&["a"][..], &["a", "b"]]).to_vec();
        let hold = rng.u64(50..2000);
        scene.lock(rng.u64(..200), self.some(rng).0, Use { names, hold, ..plain(1000) });
        self.others(rng, scene, 1500);
    }

    /// A node is frozen or a link is dead for longer than a TTL, with votes and deletes in its buffers.
    pub(super) fn frozen(&self, rng: &mut Rng, scene: &mut Scene) {
        let (client, node) = self.some(rng);
        let ms = pick(rng, &[1500, 4000, 13_000]);
        let stop = if rng.bool() {
            Action::Stop { node, ms }
        } else {
            Action::Cut { client, node, ms: ms / 4 }
        };
        let at = rng.u64(..300);
        scene.add(at, stop);
        for _ in 0..rng.u8(1..=4) {
            let cancel = (rng.u8(..4) == 0).then(|| rng.u64(..50));
            let wait = pick(rng, &[None, Some(0), Some(1000)]);
            let ttl = self.at_most(pick(rng, &[300, 1000, 2000, 8000]));
            let how = Use { wait, cancel, hold: rng.u64(..400), ..plain(ttl) };
            let asks = if rng.bool() { client } else { self.some(rng).0 };
            scene.lock((at + rng.u64(..100)).saturating_sub(50), asks, how);
        }
        self.others(rng, scene, ms + 2000);
    }

    /// A node refuses commands when leases with a long TTL end, or when votes of a failed round are deleted.
    pub(super) fn refused(&self, rng: &mut Rng, scene: &mut Scene) {
        let (node, ttl) = (self.some(rng).1, self.at_most(30_000));
        for _ in 0..rng.u8(1..=4) {
            let (client, hold) = (self.some(rng).0, rng.u64(..1500));
            let names = pick(rng, &[&["a"][..], &["b"], &["a", "b"]]).to_vec();
            let wait = pick(rng, &[None, Some(0), Some(500)]);
            scene.lock(rng.u64(..1500), client, Use { names, wait, hold, ..plain(ttl) });
        }
        let (refusal, longest) = (pick(rng, &REFUSALS), pick(rng, &[100, 1500, 6000]));
        scene.add(rng.u64(..1500), Action::Refuse { node, refusal, ms: rng.u64(1..longest) });
        self.others(rng, scene, 2500);
    }

    /// The connections of a client drop all bytes while it holds and acquires locks, or after it was idle.
    pub(super) fn vanished(&self, rng: &mut Rng, scene: &mut Scene) {
        let (client, node) = self.some(rng);
        let at = pick(rng, &[300, 12_000]);
        scene.lock(0, client, Use { hold: rng.u64(..1000), ..plain(1000) });
        for other in 0..rng.usize(1..=self.nodes.len()) {
            let node = (node + other) % (self.nodes.len() * self.shards);
            scene.add(rng.u64(..at), Action::Vanish { client, node });
        }
        for _ in 0..rng.u8(1..=3) {
            let how = Use { wait: pick(rng, &[None, Some(3000)]), ..usual(rng) };
            scene.lock(at + rng.u64(..300), client, how);
        }
        self.others(rng, scene, at + 1500);
    }

    /// A client is killed in the middle of a round. Some nodes keep its vote for a long time.
    pub(super) fn killed(&self, rng: &mut Rng, scene: &mut Scene) {
        let (client, node) = self.some(rng);
        let ttl = self.at_most(15_000);
        scene.lock(1, client, plain(ttl));
        for other in 0..self.nodes.len() {
            if other != node {
                scene.add(0, Action::Cut { client, node: other, ms: 500 });
            }
        }
        scene.add(rng.u64(2..60), Action::CrashClient { client });
        self.others(rng, scene, 2500);
    }

    /// A lock becomes free shortly before its waiter times out. The nodes that it would ask first do not reply. Their
    /// connections break one after the other, each after a long wait.
    pub(super) fn late_scouts(&self, rng: &mut Rng, scene: &mut Scene) {
        let (waiter, node) = self.some(rng);
        let holder = (waiter + 1) % self.clients.len();
        // This teaches the client how long rounds take, and therefore how long to wait for a scout.
        scene.lock(0, waiter, Use { names: vec!["b"], ..plain(1000) });
        let (free, left) = (rng.u64(200..600), rng.u64(30..70));
        scene.lock(100, holder, Use { hold: free - 100, ..plain(2000) });
        let begin = rng.u64(120..180);
        let wait = Some(free - begin + left);
        scene.lock(begin, waiter, Use { wait, ..plain(2000) });
        let silent = if rng.u8(..4) == 0 { node } else { 0 };
        for scout in 0..(self.nodes.len() / 2).max(1) {
            let node = (silent + scout) % self.nodes.len();
            scene.add(free - 20, Action::Slow { client: waiter, node, by: 800, ms: 200 });
            let broken = free + rng.u64(15..60);
            scene.add(broken, Action::Cut { client: waiter, node, ms: 500 });
        }
    }

    /// A node returns a fencing token once that the library would never store.
    pub(super) fn wrong_token(&self, rng: &mut Rng, scene: &mut Scene) {
        // The node at which `foreign` begins, so that other nodes stay correct.
        let node = usize::from(!self.kills);
        // One is below 2^53 but later than any clock. The other one is a value that all clients accept.
        let (far, near) = (EPOCH_US + 200 * YEAR_US, EPOCH_US + 99 * YEAR_US);
        let fence =
            pick(rng, &[1 << 60, (1 << 53) + 1, 1 << 53, u64::MAX, u64::MAX - 1, far, near]);
        // Fewer than three nodes cannot form a quorum without the wrong node.
        if self.fencing && self.nodes.len() > 2 {
            scene.add(0, Action::WrongToken { node, fence, stored: rng.bool() });
        }
        self.others(rng, scene, 2000);
        self.others(rng, scene, 2000);
    }
}

const YEAR_US: u64 = 31_557_600 * 1_000_000;
