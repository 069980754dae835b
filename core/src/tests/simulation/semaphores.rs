//! Uses of a semaphore, whose permits are keys with one owner each.

use fastrand::Rng;

use crate::lease::LeaseHandle;

use super::action::{Action, Also, Step, Use};
use super::scenario::Scenario;

pub(super) const POOL: &str = "pool";
/// The keys of its permits.
pub(super) const PERMITS: [&str; 3] = ["{pool}#0", "{pool}#1", "{pool}#2"];
pub(super) const LIMIT: u32 = 3;

impl Use {
    pub(super) fn is_of_semaphore(&self) -> bool {
        self.names == [POOL]
    }

    /// The keys of which a grant has some, as groups. The grant has all keys of one group.
    pub(super) fn groups(&self) -> Vec<Vec<&'static str>> {
        if !self.is_of_semaphore() {
            return vec![self.names.clone()];
        }
        let subset = |bits: u32| (0..PERMITS.len()).filter(move |at| bits >> at & 1 == 1);
        let all = (0..1_u32 << LIMIT).filter(|bits| bits.count_ones() == self.permits);
        all.map(|bits| subset(bits).map(|at| PERMITS[at]).collect()).collect()
    }

    /// The keys of a lease.
    pub(super) fn keys_of(&self, hold: &LeaseHandle) -> Vec<&'static str> {
        if !self.is_of_semaphore() {
            return self.names.clone();
        }
        PERMITS.into_iter().filter(|permit| hold.keys().iter().any(|key| key == permit)).collect()
    }
}

impl Scenario {
    pub(super) fn has_semaphore(&self) -> bool {
        let uses =
            |step: &Step| matches!(&step.action, Action::Lock { how, .. } if how.is_of_semaphore());
        self.steps.iter().any(uses)
    }

    /// In some runs, many uses are of a semaphore. The random numbers come from a separate generator, so that the rest
    /// of the scenario does not change.
    pub(super) fn add_semaphores(&mut self, rng: &mut Rng) {
        if !self.promise.is_all() || rng.u8(..4) != 0 {
            return;
        }
        let share = rng.u8(2..8);
        for step in &mut self.steps {
            if let Action::Lock { how, .. } = &mut step.action
                && matches!(how.also, Also::Nothing)
                && rng.u8(..8) < share
            {
                how.names = vec![POOL];
                how.permits = [1, 1, 1, 2, LIMIT][rng.usize(..5)];
            }
        }
    }
}
