//! Uses of read/write locks, and their keys as an observer of all servers sees them.

use fastrand::Rng;

use super::action::{Action, Also, Use};
use super::clock::Time;
use super::generator::plain;
use super::play::play;
use super::record::Record;
use super::scenario::Scenario;
use super::scripts_sides::readers;
use super::server::Server;
use super::world::MS;
use crate::node::{Form, Side};

impl Scenario {
    /// In some runs, many uses are those of readers and writers. The random numbers come from a separate generator, so
    /// that the rest of the scenario does not change.
    pub(super) fn add_sides(&mut self, rng: &mut Rng) {
        let forced = std::env::var_os("SIDES").is_some();
        if !self.promise.is_all() || rng.u8(..4) != 0 && !forced {
            return;
        }
        for step in &mut self.steps {
            if let Action::Lock { how, .. } = &mut step.action
                && matches!(how.also, Also::Nothing)
                && how.names.len() == 1
                && !how.is_of_semaphore()
            {
                how.side =
                    [Some(Side::Read), Some(Side::Read), Some(Side::Write), None][rng.usize(..4)];
                if how.side == Some(Side::Read) {
                    how.min_hold = 0;
                }
            }
        }
    }
}

/// Two readers share a lock, a writer follows them, and a reader follows the writer.
fn readers_around_a_writer(seed: u64, nodes: usize) -> Scenario {
    let lock = |client, side, wait, hold| {
        let how = Use { side: Some(side), wait: Some(wait), hold, must: true, ..plain(2000) };
        Action::Lock { client, how }
    };
    let steps = [
        (0, lock(0, Side::Read, 10_000, 3000)),
        (1000, lock(1, Side::Read, 500, 3000)),
        (1500, lock(0, Side::Write, 10_000, 500)),
        (2000, lock(1, Side::Read, 10_000, 500)),
    ];
    Scenario::plain(seed, nodes, MS, steps.into())
}

#[test]
fn both_sides_are_served() {
    for seed in 0..20 {
        let scenario = readers_around_a_writer(seed, [1, 3][usize::from(seed % 2 == 1)]);
        if let Err(violation) = play(&scenario) {
            panic!("{seed}: {violation}\n{scenario}");
        }
    }
}

impl Record {
    pub(super) fn is_reader(&self) -> bool {
        matches!(self.state.claim.form, Form::Read(_))
    }
}

impl Server {
    /// Whether the token has this lock key now, alone or as a reader.
    pub(super) fn has_now(&self, name: &str, token: &str, now: Time) -> bool {
        let set = format!("{{{name}}}:readers");
        let is_reader = || {
            let (stored, _) = self.owner_at(&set, now)?;
            readers(Some(stored)).get(token).copied()
        };
        let ms = self.clock_us(now) / 1000;
        self.owner_at(name, now)
            .is_some_and(|(owner, _)| owner == token || is_reader().is_some_and(|end| end > ms))
    }
}
