//! Generates a scenario from a seed: uses of locks, failures, and the combinations of both that the rules exist for.

use fastrand::Rng;

use super::action::{Action, Also, End, Step, Use};
use super::clock::Time;
use super::refusals::Refusal;
use super::scenario::{BEGIN, Promise, Scenario};
use super::world::MS;

pub(super) const REFUSALS: [Refusal; 6] = [
    Refusal::Busy,
    Refusal::Loading,
    Refusal::NoDisk,
    Refusal::NoMemory,
    Refusal::NoConnection,
    Refusal::NoLogin,
];

/// The keys of a lease stay for at most this time, in ms. The last acquires of a run wait longer.
const LONGEST_MIN_HOLD: u64 = 8_000;

pub(super) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

impl Scenario {
    /// Most seeds contain a few late votes or one situation and little else. If everything fails at once, specific
    /// combinations become rare.
    pub(super) fn fill(&mut self, rng: &mut Rng, amnesia: bool) {
        let length = pick(rng, &[2_000, 5_000, 12_000]);
        if self.promise == Promise::ForceReleased {
            return self.force_released(rng, length);
        }
        let kind = rng.u8(..16);
        if kind < 4 {
            for _ in 0..rng.usize(1..=2) {
                self.late_vote(rng, length);
            }
        } else if kind < 11 && self.promise.is_all() {
            self.situations(rng, length);
        } else {
            for _ in 0..rng.usize(4..=20) {
                let action = self.lock(rng);
                self.step(rng, length, action);
            }
            let most = [6, 14, 40][rng.usize(..3)];
            for _ in 0..rng.usize(0..=most) {
                let action = self.fault(rng, amnesia);
                self.step(rng, length, action);
            }
            for _ in 0..rng.usize(0..4) {
                self.burst(rng, length, amnesia);
            }
        }
        if self.login.is_some() {
            let (node, ms) = (self.some(rng).1, rng.u64(500..5000));
            self.step(rng, length, Action::Refuse { node, refusal: Refusal::NoLogin, ms });
        }
        self.unguaranteed_events(rng, length, amnesia);
    }

    fn step(&mut self, rng: &mut Rng, length: u64, action: Action) {
        self.steps.push(Step { at: some_time(rng, length), action });
    }

    /// Contention and broken connections within a few round trips of each other, so that rounds and their clean-up
    /// overlap.
    fn burst(&mut self, rng: &mut Rng, length: u64, amnesia: bool) {
        let begin = some_time(rng, length);
        for _ in 0..rng.usize(3..=10) {
            let (client, node) = self.some(rng);
            let action = match rng.u8(..8) {
                0..=2 => self.lock(rng),
                3..=6 => Action::Cut { client, node, ms: [1, 5, 40, 700][rng.usize(..4)] },
                _ => self.fault(rng, amnesia),
            };
            let at = begin + rng.u64(0..self.latency * 6);
            self.steps.push(Step { at, action });
        }
    }

    /// A connection breaks while it carries a late message. A vote, an extend or a delete reaches its node after the
    /// client has continued over the next connection and has lost another node. Other clients want the lock meanwhile.
    fn late_vote(&mut self, rng: &mut Rng, length: u64) {
        let begin = some_time(rng, length);
        let ttl = pick(rng, &[200, 500, 1000]);
        let (client, late) = self.some(rng);
        let gone = (late + rng.usize(1..self.nodes.len().max(2))) % self.nodes.len();
        let at = |ms: u64| begin + ms * MS;
        let mut add = |at: Time, action: Action| self.steps.push(Step { at, action });
        let slow = if rng.u8(..3) == 0 { rng.u64(0..ttl) } else { 0 };
        let length = rng.u64(1..30);
        add(at(slow), Action::Slow { client, node: late, by: rng.u64(50..1500), ms: length });
        let broken = slow + rng.u64(0..length + 100);
        add(at(broken), Action::Cut { client, node: late, ms: rng.u64(1..40) });
        let away = rng.u64(0..ttl);
        add(at(away), Action::Cut { client, node: gone, ms: rng.u64(100..2500) });
        let others = self.clients.len();
        let uses = (0..rng.u64(1..=3)).map(|_| (rng.usize(..others), rng.u64(0..1500)));
        for (client, later) in [(client, slow.min(2))].into_iter().chain(uses.collect::<Vec<_>>()) {
            let longest = pick(rng, &[50, 3000]);
            let hold = rng.u64(0..longest);
            let how = Use { hold, wait: [None, Some(4000)][rng.usize(..2)], ..plain(ttl) };
            self.steps.push(Step { at: at(later), action: Action::Lock { client, how } });
        }
    }

    pub(super) fn lock(&self, rng: &mut Rng) -> Action {
        let ttl = [100, 200, 500, 1000, 2000][rng.usize(..5)];
        let names: &[&str] = match rng.u8(..8) {
            0 => &["a", "b"],
            1 => &["b", "a"],
            2 | 3 => &["b"],
            _ => &["a"],
        };
        let some =
            |rng: &mut Rng, one_in: u8, most: u64| (rng.u8(..one_in) == 0).then(|| rng.u64(..most));
        let longest = [50, 500, 3000][rng.usize(..3)];
        let hold = rng.u64(0..longest);
        let how = Use {
            names: names.to_vec(),
            wait: match rng.u8(..4) {
                0 => Some(0),
                1 => None,
                _ => Some(rng.u64(1..4000)),
            },
            renew: rng.u8(..4) != 0,
            max_hold: some(rng, 8, 3000).map(|ms| ms.max(100)),
            hold,
            extend: some(rng, 4, 2000).map(|ms| ms.max(100)),
            cancel: some(rng, 5, 800),
            end: [End::Release, End::Release, End::Release, End::Drop, End::Detach, End::Keep]
                [rng.usize(..6)]
            .clone(),
            ..plain(ttl)
        };
        Action::Lock { client: self.some(rng).0, how }
    }

    /// In some runs, the keys of many leases stay after the release. The random numbers come from a separate generator,
    /// so that the rest of the scenario does not change.
    pub(super) fn add_min_holds(&mut self, rng: &mut Rng) {
        if !self.promise.is_all() || rng.u8(..6) != 0 {
            return;
        }
        for step in &mut self.steps {
            if let Action::Lock { how, .. } = &mut step.action
                && matches!(how.also, Also::Nothing)
                && rng.bool()
            {
                // Half of them outlast the TTL.
                let longest = how.ttl * [1, 4][rng.usize(..2)];
                how.min_hold = rng.u64(1..=longest.min(LONGEST_MIN_HOLD));
            }
        }
    }

    fn fault(&self, rng: &mut Rng, amnesia: bool) -> Action {
        let (client, node) = self.some(rng);
        let longest = [20, 300, 2500][rng.usize(..3)];
        let ms = rng.u64(1..longest);
        match rng.u8(..15) {
            14 => Action::Close { client, node },
            12 => Action::Vanish { client, node },
            13 => Action::Refuse { node, refusal: pick(rng, &REFUSALS), ms },
            0..=2 => Action::Cut { client, node, ms },
            3..=4 => Action::Slow { client, node, by: rng.u64(1..1500), ms },
            5..=7 => Action::Pause { client, ms },
            8 => Action::CrashClient { client },
            9 => Action::Stop { node, ms },
            _ => Action::Crash { node, keep: !amnesia || rng.u8(..4) == 0, down: ms },
        }
    }

    /// A random client and a random node. In a cluster, any of the node's servers.
    pub(super) fn some(&self, rng: &mut Rng) -> (usize, usize) {
        (rng.usize(..self.clients.len()), rng.usize(..self.nodes.len() * self.shards))
    }
}

pub(super) fn some_time(rng: &mut Rng, length: u64) -> Time {
    BEGIN + rng.u64(0..length * 1000) * 1000
}

/// The usual use: waits without a limit, is renewed, and is released immediately.
pub(super) fn plain(ttl: u64) -> Use {
    Use {
        names: vec!["a"],
        permits: 1,
        ttl,
        node_timeout: None,
        wait: None,
        renew: true,
        max_hold: None,
        side: None,
        min_hold: 0,
        hold: 0,
        extend: None,
        cancel: None,
        end: End::Release,
        also: Also::Nothing,
        must: false,
    }
}
