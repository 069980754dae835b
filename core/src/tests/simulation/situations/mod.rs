//! Situations: combinations of a few uses and failures, close together, in which defects were found.

mod leases;
mod nodes;

use fastrand::Rng;

use super::action::{Action, Step, Use};
use super::clock::Time;
use super::generator::{pick, plain, some_time};
use super::scenario::Scenario;
use super::world::MS;

/// The parts of a situation, with times relative to its start.
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

/// Number of kinds of situations.
const KINDS: u8 = 14;

impl Scenario {
    /// Adds one or two situations, sometimes with a broken link or a pause. SITUATION selects the kind.
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
                8 => self.wrong_token(rng, &mut scene),
                9 => self.late_scouts(rng, &mut scene),
                10 => self.refused(rng, &mut scene),
                11 => self.vanished(rng, &mut scene),
                12 => self.crowd(rng, &mut scene),
                _ => self.released_early(rng, &mut scene),
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

    /// A few other clients want the lock too.
    fn others(&self, rng: &mut Rng, scene: &mut Scene, within: u64) {
        for _ in 0..rng.u8(1..=3) {
            let how = Use { wait: pick(rng, &[None, Some(6000)]), ..usual(rng) };
            scene.lock(rng.u64(..within), self.some(rng).0, how);
        }
    }

    /// Limits a TTL to the restart guard, which no TTL may exceed.
    pub(super) fn at_most(&self, ttl: u64) -> u64 {
        if self.guard.is_zero() {
            ttl
        } else {
            ttl.min(u64::try_from(self.guard.as_millis()).unwrap())
        }
    }
}

fn usual(rng: &mut Rng) -> Use {
    let longest = pick(rng, &[20, 1500]);
    Use { hold: rng.u64(..longest), ..plain(pick(rng, &[300, 1000, 2000])) }
}
