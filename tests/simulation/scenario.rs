//! What happens in a run: made from a seed, and shrunk by leaving steps out.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use super::clock::{Rate, Time};
use super::world::MS;

/// Which faults a scenario may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Only those under which exclusion is promised.
    Kept,
    /// Somebody deletes lock keys by hand.
    KeysAreDeleted,
    /// The same, but only the order of fencing tokens is watched.
    TokensDespiteDeletes,
    NodesAreFlushed,
    /// Nodes restart without their data and vote at once.
    NoGuard,
}

#[derive(Clone, Debug)]
pub(super) enum End {
    Release,
    Drop,
    Abandon,
    /// Until it is lost.
    Keep,
}

#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) names: Vec<&'static str>,
    pub(super) ttl: u64,
    pub(super) wait: Option<u64>,
    pub(super) renew: bool,
    pub(super) max_hold: Option<u64>,
    pub(super) hold: u64,
    pub(super) extend: Option<u64>,
    pub(super) cancel: Option<u64>,
    pub(super) end: End,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Lock { client: usize, how: Use },
    Pause { client: usize, ms: u64 },
    CrashClient { client: usize },
    Cut { client: usize, node: usize, ms: u64 },
    Slow { client: usize, node: usize, by: u64, ms: u64 },
    Crash { node: usize, keep: bool, down: u64 },
    Stop { node: usize, ms: u64 },
    Delete { node: usize, name: &'static str },
    Flush { node: usize },
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) promise: Promise,
    pub(super) guard: Duration,
    pub(super) fencing: bool,
    pub(super) latency: Time,
    pub(super) nodes: Vec<(i64, i64)>,
    pub(super) clients: Vec<Rate>,
    pub(super) steps: Vec<Step>,
}

/// Servers are this old when a run begins: old enough to vote.
pub(super) const BEGIN: Time = 100_000 * MS;

impl Scenario {
    pub(super) fn from_seed(seed: u64, promise: Promise) -> Self {
        let mut rng = Rng::with_seed(seed);
        let pick = |rng: &mut Rng, from: &[u64]| from[rng.usize(..from.len())];
        let nodes = match promise {
            Promise::NoGuard => pick(&mut rng, &[3, 5]),
            _ => pick(&mut rng, &[1, 2, 3, 3, 3, 4, 5, 5]),
        };
        let amnesia = promise == Promise::NoGuard || nodes > 1 && rng.bool();
        let fencing = promise == Promise::TokensDespiteDeletes || rng.u8(..3) == 0;
        let guard = match (promise, amnesia, fencing) {
            (Promise::NoGuard, ..) | (_, false, _) => 0,
            // Across restarts tokens need node clocks that agree within the guard less twice the slack.
            (_, true, true) => 12_000,
            (_, true, false) => 2_000,
        };
        let apart = if amnesia { 500_000 } else { 7_200_000_000 };
        let mut this = Self {
            seed,
            promise,
            guard: Duration::from_millis(guard),
            fencing,
            latency: pick(&mut rng, &[200_000, MS, 5 * MS, 40 * MS]),
            nodes: (0..nodes).map(|_| (rng.i64(-4900..=4900), rng.i64(-apart..=apart))).collect(),
            clients: (0..rng.usize(2..=5))
                .map(|_| Rate {
                    ppm: rng.i64(-4900..=4900),
                    wall_offset_us: rng.i64(-10_800_000_000..=10_800_000_000),
                })
                .collect(),
            steps: Vec::new(),
        };
        let length = pick(&mut rng, &[2_000, 5_000, 12_000]);
        for _ in 0..rng.usize(4..=20) {
            let action = this.lock(&mut rng);
            this.step(&mut rng, length, action);
        }
        let most = [6, 14, 40][rng.usize(..3)];
        for _ in 0..rng.usize(0..=most) {
            let action = this.fault(&mut rng, amnesia);
            this.step(&mut rng, length, action);
        }
        for _ in 0..rng.usize(0..4) {
            this.burst(&mut rng, length, amnesia);
        }
        this.unpromised(&mut rng, length);
        this.steps.sort_by_key(|step| step.at);
        this
    }

    fn step(&mut self, rng: &mut Rng, length: u64, action: Action) {
        self.steps.push(Step { at: BEGIN + rng.u64(0..length * 1000) * 1000, action });
    }

    /// Contention and broken connections within a few round trips of each other: where rounds and their clean-up meet.
    fn burst(&mut self, rng: &mut Rng, length: u64, amnesia: bool) {
        let begin = BEGIN + rng.u64(0..length * 1000) * 1000;
        for _ in 0..rng.usize(3..=10) {
            let (client, node) = (rng.usize(..self.clients.len()), rng.usize(..self.nodes.len()));
            let action = match rng.u8(..8) {
                0..=2 => self.lock(rng),
                3..=6 => Action::Cut { client, node, ms: [1, 5, 40, 700][rng.usize(..4)] },
                _ => self.fault(rng, amnesia),
            };
            let at = begin + rng.u64(0..self.latency * 6);
            self.steps.push(Step { at, action });
        }
    }

    fn lock(&self, rng: &mut Rng) -> Action {
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
            ttl,
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
            end: [End::Release, End::Release, End::Release, End::Drop, End::Abandon, End::Keep]
                [rng.usize(..6)]
            .clone(),
        };
        Action::Lock { client: rng.usize(..self.clients.len()), how }
    }

    fn fault(&self, rng: &mut Rng, amnesia: bool) -> Action {
        let (client, node) = (rng.usize(..self.clients.len()), rng.usize(..self.nodes.len()));
        let longest = [20, 300, 2500][rng.usize(..3)];
        let ms = rng.u64(1..longest);
        match rng.u8(..12) {
            0..=2 => Action::Cut { client, node, ms },
            3..=4 => Action::Slow { client, node, by: rng.u64(1..1500), ms },
            5..=7 => Action::Pause { client, ms },
            8 => Action::CrashClient { client },
            9 => Action::Stop { node, ms },
            _ => Action::Crash { node, keep: !amnesia || rng.u8(..4) == 0, down: ms },
        }
    }

    fn unpromised(&mut self, rng: &mut Rng, length: u64) {
        let nodes = self.nodes.len();
        let at = |rng: &mut Rng| BEGIN + rng.u64(0..length * 1000) * 1000;
        match self.promise {
            Promise::Kept | Promise::NoGuard => {}
            Promise::KeysAreDeleted | Promise::TokensDespiteDeletes => {
                for _ in 0..4 {
                    let at = at(rng);
                    let name = ["a", "b"][rng.usize(..2)];
                    let all =
                        (0..nodes).map(|node| Step { at, action: Action::Delete { node, name } });
                    self.steps.extend(all);
                }
            }
            Promise::NodesAreFlushed => {
                for _ in 0..4 {
                    let at = at(rng);
                    let all =
                        (0..=nodes / 2).map(|node| Step { at, action: Action::Flush { node } });
                    self.steps.extend(all);
                }
            }
        }
    }

    /// The shortest schedule found that still breaks the same rule.
    pub(super) fn shrink(
        mut self,
        mut violation: String,
        fails: impl Fn(&Self) -> Option<String>,
    ) -> (Self, String) {
        let mut chunk = self.steps.len().max(1);
        while chunk > 0 {
            let mut start = 0;
            while start < self.steps.len() {
                let mut fewer = self.clone();
                fewer.steps.drain(start..(start + chunk).min(self.steps.len()));
                match fails(&fewer) {
                    Some(again) => (self, violation) = (fewer, again),
                    None => start += chunk,
                }
            }
            chunk /= 2;
        }
        (self, violation)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, clients) = (self.nodes.len(), self.clients.len());
        writeln!(
            f,
            "  {nodes} nodes, {clients} clients, guard {:?}, fencing {}",
            self.guard, self.fencing
        )?;
        for step in &self.steps {
            writeln!(f, "  {:>9.3} ms  {:?}", (step.at - BEGIN) as f64 / 1e6, step.action)?;
        }
        Ok(())
    }
}
