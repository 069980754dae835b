//! Delivers outcomes to JavaScript.

use std::collections::VecDeque;

use napi::bindgen_prelude::FnArgs;
use redlock::LeaseHandle;
use redlock::ffi::{Acquire, fence};

use super::local::Local;
use super::log;
use crate::batch::{CREDENTIALS, LOSS, Row, STEP, WARNING, integers};
use crate::number::{Number, column};
use crate::outcome::{Ended, Outcome};
use crate::pending::Call;

impl Local {
    /// Delivers the queued outcomes.
    pub(super) fn tell(&self) {
        // Get the function first, because it keeps the memory of the rows alive.
        let Some(hearer) = self.hearer.get() else {
            self.event_loop.desert();
            return pass_on(self.event_loop.take_all());
        };
        let outcomes = self.event_loop.take(self.batch.room());
        if outcomes.is_empty() {
            // Another wake-up has already delivered them.
            return;
        }
        self.hearer.call(&hearer, FnArgs::from(self.settle(outcomes)));
    }

    /// Writes the rows. Returns their number, and the values beside them, if there are any.
    fn settle(&self, outcomes: VecDeque<Ended>) -> (u32, Option<Vec<Outcome>>) {
        self.delivered.borrow_mut().clear();
        let (mut rows, mut beside) = (0, Vec::new());
        for ended in outcomes {
            let Some((row, rest)) = self.row(ended) else { continue };
            self.batch.write(rows as usize, &row);
            rows += 1;
            beside.extend(rest);
        }
        (rows, Some(beside).filter(|beside| !beside.is_empty()))
    }

    /// Returns the row of an outcome, and the value beside it. None for a cancelled call. Its outcome is dropped, which
    /// releases its lease.
    fn row(&self, Ended { slot, number, outcome }: Ended) -> Option<(Row, Option<Outcome>)> {
        let outcome = match outcome {
            Outcome::Asked(answer) => {
                let question = self.questions.borrow_mut().insert(answer);
                let question = u32::try_from(question).ok().map(Outcome::Count);
                return Some((Row::numbered(CREDENTIALS.into(), number), question));
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Warning(_) => {
                return Some((Row::plain(WARNING.into(), Row::ANSWER), Some(outcome)));
            }
            Outcome::Step(step, _) => {
                let step = Outcome::Step(step, self.event_loop.saw_step());
                return Some((Row::plain(STEP.into(), Row::ANSWER), Some(step)));
            }
            Outcome::Lost(lease, _) => {
                return Some((Row::numbered(LOSS.into(), lease), Some(outcome)));
            }
            _ => {}
        }
        let call = self.change(|calls| calls.settle(slot, number))?;
        let slot_column = f64::from(slot);
        let beside = |value, outcome| Some((Row::plain(slot_column, value), Some(outcome)));
        match outcome {
            Outcome::Acquired(granted) => self.acquired(slot, number, call, granted),
            Outcome::Attached(lease) => Some((self.lease_row(slot, number, lease), None)),
            Outcome::Released(lease) => {
                self.held.remove(lease);
                Some((Row::plain(slot_column, 0.0), None))
            }
            _ if outcome.is_failure() => beside(Row::FAILURE, outcome),
            _ => beside(Row::ANSWER, outcome),
        }
    }

    /// Returns the row of an acquire. None if it is repeated, because its lease ended before this thread received it.
    fn acquired(
        &self,
        slot: u32,
        number: Number,
        call: Call,
        granted: redlock::Result<Option<redlock::Lease>>,
    ) -> Option<(Row, Option<Outcome>)> {
        let acquire = call.acquire?;
        let Some(accepted) = acquire.accept(granted) else {
            self.ask(slot, acquire);
            self.wake();
            return None;
        };
        let plain = |value, rest| Some((Row::plain(slot.into(), value), Some(rest)));
        match accepted {
            Ok(Some(lease)) => {
                self.delivered.borrow_mut().push((number, acquire));
                Some((self.lease_row(slot, number, lease.into_handle()), None))
            }
            Ok(None) => plain(Row::ANSWER, Outcome::Done),
            Err(error) => plain(Row::FAILURE, Outcome::Failed(error)),
        }
    }

    /// Returns the acquire of a lease in the last delivered batch, if the lease has already ended.
    pub(crate) fn delivered(&self, lease: Number) -> Option<Acquire> {
        if self.held.ask(lease, LeaseHandle::is_held)? {
            return None;
        }
        let mut delivered = self.delivered.borrow_mut();
        let at = delivered.iter().position(|(number, _)| *number == lease)?;
        Some(delivered.swap_remove(at).1)
    }

    fn lease_row(&self, slot: u32, number: Number, lease: LeaseHandle) -> Row {
        let fence = fence(&lease).and_then(|fence| fence.try_into().ok()).map_or(0.0, column);
        let token = integers(lease.token()).unwrap_or_default();
        self.held.insert(number, lease);
        Row { slot: slot.into(), value: column(number), token, fence }
    }
}

/// Drops outcomes that JavaScript can no longer receive. Warnings belong to the process, so another copy of the package
/// emits them.
pub(super) fn pass_on(outcomes: VecDeque<Ended>) {
    for ended in outcomes {
        if let Outcome::Warning(text) = ended.outcome {
            log::warn(text);
        }
    }
}
