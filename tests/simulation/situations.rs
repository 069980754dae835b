//! Meetings of uses and faults that defects were found in: few things at a time, close together.

use fastrand::Rng;

use super::chance::{pick, plain, some_time};
use super::clock::Time;
use super::scenario::{Action, Also, End, Scenario, Step, Use};
use super::server::EPOCH_US;
use super::world::MS;

/// What a situation is made of, at times from its begin on.
struct Scene<'a> {
    steps: &'a mut Vec<Step>,
    begin: Time,
}

impl Scene<'_> {
    fn add(&mut self, ms: u64, action: Action) {
        self.steps.push(Step { at: self.begin + ms * MS, action });
    }

    fn lock(&mut self, ms: u64, client: usize, how: Use) {
        self.add(ms, Action::Lock { client, how });
    }
}

/// How many kinds there are.
const KINDS: u8 = 10;

impl Scenario {
    /// One or two of them, sometimes with a broken link or a pause; SITUATION chooses which.
    pub(super) fn situations(&mut self, rng: &mut Rng, length: u64) {
        let only = std::env::var("SITUATION").ok().and_then(|kind| kind.parse().ok());
        for _ in 0..rng.u8(1..=2) {
            let mut steps = Vec::new();
            let begin = some_time(rng, length);
            let mut scene = Scene { steps: &mut steps, begin };
            match only.unwrap_or_else(|| rng.u8(..KINDS)) {
                0 => self.nested(rng, &mut scene),
                1 => self.foreign(rng, &mut scene),
                2 => self.slow_round(rng, &mut scene),
                3 => self.shorter(rng, &mut scene),
                4 => self.second_lease(rng, &mut scene),
                5 => self.handed_over(rng, &mut scene),
                6 => self.frozen(rng, &mut scene),
                7 => self.killed(rng, &mut scene),
                8 => self.lie(rng, &mut scene),
                _ => self.given_back(rng, &mut scene),
            }
            for _ in 0..rng.u8(..3) {
                let ((client, node), ms) = (self.some(rng), rng.u64(1..600));
                let action = match rng.u8(..3) {
                    0 => Action::Cut { client, node, ms },
                    1 => Action::Pause { client, ms },
                    _ => self.lock(rng),
                };
                scene.add(rng.u64(..3000), action);
            }
            self.steps.extend(steps);
        }
    }

    /// A few others want the lock, too.
    fn others(&self, rng: &mut Rng, scene: &mut Scene, within: u64) {
        for _ in 0..rng.u8(1..=3) {
            let how = Use { wait: pick(rng, &[None, Some(6000)]), ..usual(rng) };
            scene.lock(rng.u64(..within), self.some(rng).0, how);
        }
    }

    /// No ttl may exceed the guard.
    fn at_most(&self, ttl: u64) -> u64 {
        if self.guard.is_zero() {
            ttl
        } else {
            ttl.min(u64::try_from(self.guard.as_millis()).unwrap())
        }
    }

    /// Who holds "a" asks for "b", while others of the same client wait for both.
    fn nested(&self, rng: &mut Rng, scene: &mut Scene) {
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

    /// Keys of another library on too few nodes to matter, while a lock changes hands.
    fn foreign(&self, rng: &mut Rng, scene: &mut Scene) {
        let spare = (self.nodes.len() - 1) / 2;
        // The same ones, if this happens twice.
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

    /// A round that takes most of its ttl, by slow links or by a pause, while the client keeps another lease.
    fn slow_round(&self, rng: &mut Rng, scene: &mut Scene) {
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

    /// A lease whose ttl becomes shorter than the time that a vote may take, and a node that says nothing.
    fn shorter(&self, rng: &mut Rng, scene: &mut Scene) {
        let (client, node) = self.some(rng);
        let ttl = pick(rng, &[1000, 2000]);
        let node_timeout = Some(rng.u64(ttl / 5..ttl));
        let extend = Some(rng.u64(200..ttl));
        let how = Use { node_timeout, extend, hold: rng.u64(200..6000), ..plain(ttl) };
        scene.lock(0, client, how);
        scene.add(rng.u64(..600), Action::Stop { node, ms: rng.u64(1000..8000) });
        self.others(rng, scene, 4000);
    }

    /// Two leases of one token in one client, which end at different times.
    fn second_lease(&self, rng: &mut Rng, scene: &mut Scene) {
        let end = |rng: &mut Rng| {
            pick(rng, &[&End::Release, &End::Release, &End::Drop, &End::Abandon, &End::Keep])
                .clone()
        };
        let max_hold = (rng.u8(..4) == 0).then(|| rng.u64(100..2000));
        let ttl = pick(rng, &[500, 1000, 2000]);
        let second = Use { hold: rng.u64(..3000), max_hold, end: end(rng), ..plain(ttl) };
        let also = Also::Second(Box::new(second));
        let hold = rng.u64(..3000);
        scene.lock(0, self.some(rng).0, Use { hold, also, end: end(rng), ..plain(ttl) });
        self.others(rng, scene, 2000);
    }

    /// Another client continues the lease, and the one before ends its own without a release.
    fn handed_over(&self, rng: &mut Rng, scene: &mut Scene) {
        let max_hold = (rng.u8(..4) == 0).then(|| rng.u64(100..2000));
        let next = Use { hold: rng.u64(..3000), max_hold, ..usual(rng) };
        let also = Also::HandOver(self.some(rng).0, Box::new(next));
        let how = Use { also, end: End::Abandon, ..usual(rng) };
        scene.lock(0, self.some(rng).0, how);
        self.others(rng, scene, 2000);
    }

    /// A node is frozen, or a link dead, for longer than a ttl, with votes and deletes in its buffers.
    fn frozen(&self, rng: &mut Rng, scene: &mut Scene) {
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

    /// A client is killed in the middle of a round: some nodes keep its vote for long.
    fn killed(&self, rng: &mut Rng, scene: &mut Scene) {
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

    /// All leases of a client are taken from those who run under them, or it is shut down.
    fn given_back(&self, rng: &mut Rng, scene: &mut Scene) {
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

    /// A node tells a fencing token, once, that no rule has made.
    fn lie(&self, rng: &mut Rng, scene: &mut Scene) {
        // The one that may have foreign keys, too.
        let node = usize::from(!self.kills);
        // Below 2^53, but further ahead than any clock; and what all believe.
        let (far, near) = (EPOCH_US + 200 * YEAR_US, EPOCH_US + 99 * YEAR_US);
        let fence =
            pick(rng, &[1 << 60, (1 << 53) + 1, 1 << 53, u64::MAX, u64::MAX - 1, far, near]);
        // Fewer nodes than three have no quorum without the one that lies.
        if self.fencing && self.nodes.len() > 2 {
            scene.add(0, Action::Lie { node, fence, stored: rng.bool() });
        }
        self.others(rng, scene, 2000);
        self.others(rng, scene, 2000);
    }
}

const YEAR_US: u64 = 31_557_600 * 1_000_000;

fn usual(rng: &mut Rng) -> Use {
    let longest = pick(rng, &[20, 1500]);
    Use { hold: rng.u64(..longest), ..plain(pick(rng, &[300, 1000, 2000])) }
}
