//! Delivers outcomes to JavaScript.

use std::collections::VecDeque;

use napi::bindgen_prelude::FnArgs;
use redlock::LeaseHandle;
use redlock::ffi::{Acquire, fence};

use super::log;
use super::thread_state::ThreadState;
use crate::callback_requests::CallbackRequest;
use crate::number::Number;
use crate::outcome::{Ended, Outcome};
use crate::pending::Call;
use crate::rows::{Notice, OutcomeValue, Row};

impl ThreadState {
    /// Delivers the queued outcomes.
    pub(super) fn deliver(&self) {
        // Get the function first, because it keeps the memory of the rows alive.
        let Some(settle_callback) = self.settle_callback.get() else {
            self.event_loop.mark_ended();
            return forward_warnings(self.event_loop.take_all());
        };
        let outcomes = self.next_outcomes();
        self.event_loop.wake_for_rest();
        if outcomes.is_empty() {
            // Another wake-up has already delivered them.
            return;
        }
        self.settle_callback.call(&settle_callback, FnArgs::from(self.settle(outcomes)));
    }

    /// Takes the next outcomes, or one record if there are none. The code that handles a record may be slow, so an
    /// outcome waits for one record at most.
    fn next_outcomes(&self) -> VecDeque<Ended> {
        let outcomes = self.event_loop.take(self.rows.capacity());
        if !outcomes.is_empty() {
            return outcomes;
        }
        let Some(record) = self.event_loop.take_record() else { return outcomes };
        self.event_loop.add(self.read_outcomes());
        let mut outcomes = self.event_loop.take(self.rows.capacity() - 1);
        outcomes.push_back(record);
        outcomes
    }

    /// Writes the rows. Returns their number, and the side values, if there are any.
    fn settle(&self, outcomes: VecDeque<Ended>) -> (u32, Option<Vec<Outcome>>) {
        self.delivered.clear();
        let (mut rows, mut side_values) = (0, Vec::new());
        for ended in outcomes {
            let Some((row, rest)) = self.row(ended) else { continue };
            self.rows.write(rows as usize, &row);
            rows += 1;
            side_values.extend(rest);
        }
        (rows, Some(side_values).filter(|side_values| !side_values.is_empty()))
    }

    /// Returns the row of an outcome, and its side value. None for a cancelled call. Its outcome is dropped, which
    /// releases its lease.
    fn row(&self, Ended { slot, number, outcome }: Ended) -> Option<(Row, Option<Outcome>)> {
        let outcome = match outcome {
            Outcome::Callback(request) => return Some(self.callback_row(number, request)),
            outcome => outcome,
        };
        let notice = match &outcome {
            Outcome::Warning(_) => Some((Notice::Warning, 0)),
            Outcome::Event(..) => Some((Notice::Event, 0)),
            Outcome::Lost(lease, _) => Some((Notice::Loss, *lease)),
            _ => None,
        };
        if let Some((notice, number)) = notice {
            return Some((Row::notice(notice, number), Some(outcome)));
        }
        let call = self.change(|pending| pending.settle(slot, number))?;
        match outcome {
            Outcome::Acquired(granted) => self.acquired(slot, number, call, granted),
            Outcome::Attached(lease) => Some((self.lease_row(slot, number, lease), None)),
            Outcome::Released(lease) => {
                self.held.remove(lease);
                Some((Row::plain(slot, OutcomeValue::Nothing), None))
            }
            _ if outcome.is_failure() => {
                Some((Row::plain(slot, OutcomeValue::Failure), Some(outcome)))
            }
            _ => Some((Row::plain(slot, OutcomeValue::SideValue), Some(outcome))),
        }
    }

    /// Stores a request until its function has returned. Returns its row, and its number with the arguments.
    fn callback_row(&self, number: Number, request: CallbackRequest) -> (Row, Option<Outcome>) {
        let (notice, arguments) = match &request {
            CallbackRequest::Credentials(_) => (Notice::Credentials, None),
            CallbackRequest::Address(announced, _) => (Notice::AddressMap, Some(announced.clone())),
        };
        let request = self.callback_requests.insert(request);
        let rest = request.map(|request| match arguments {
            None => Outcome::Count(request),
            Some((host, port)) => Outcome::Arguments(request, host, port),
        });
        (Row::notice(notice, number), rest)
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
            self.enqueue_acquire(slot, acquire);
            self.wake();
            return None;
        };
        let plain = |value, rest| Some((Row::plain(slot, value), Some(rest)));
        match accepted {
            Ok(Some(lease)) => {
                self.delivered.insert(number, acquire);
                Some((self.lease_row(slot, number, lease.into_handle()), None))
            }
            Ok(None) => plain(OutcomeValue::SideValue, Outcome::Done),
            Err(error) => plain(OutcomeValue::Failure, Outcome::Failed(error)),
        }
    }

    /// Whether an acquire of the last delivered batch granted this lease. `attach` returns the lease of another holder.
    pub(crate) fn is_acquired(&self, lease: Number) -> bool {
        self.delivered.contains(lease)
    }

    /// Returns the acquire of a lease in the last delivered batch, if the lease has already ended.
    pub(crate) fn delivered(&self, lease: Number) -> Option<Acquire> {
        let held = self.held.with_lease(lease, LeaseHandle::is_held)?;
        if held { None } else { self.delivered.take(lease) }
    }

    fn lease_row(&self, slot: u32, number: Number, lease: LeaseHandle) -> Row {
        let fence = fence(&lease).and_then(|fence| fence.try_into().ok());
        let row = Row::lease(slot, number, lease.token(), fence);
        self.held.insert(number, lease);
        row
    }
}

/// Drops outcomes that JavaScript can no longer receive. Warnings belong to the process, so another copy of the package
/// emits them.
pub(super) fn forward_warnings(outcomes: VecDeque<Ended>) {
    for ended in outcomes {
        if let Outcome::Warning(text) = ended.outcome {
            log::warn(text);
        }
    }
}
