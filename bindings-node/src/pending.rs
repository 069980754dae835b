//! The calls that JavaScript waits for, by slot.

use redlock::ffi::{Acquire, Job};

use crate::number::Number;

/// A call that JavaScript waits for.
pub(crate) struct Call {
    /// Slots are reused. The number distinguishes a late outcome from that of the slot's next call.
    pub(crate) number: Number,
    /// Cancels the call when it is dropped. None for a call that cannot be cancelled.
    pub(crate) job: Option<Job>,
    /// The acquire to repeat if its lease ends before the caller runs.
    pub(crate) acquire: Option<Acquire>,
}

/// The pending calls.
#[derive(Default)]
pub(crate) struct Pending {
    calls: Vec<Option<Call>>,
    taken: usize,
    /// The number of the last call.
    pub(crate) last_number: Number,
}

impl Pending {
    /// Whether JavaScript waits for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns a number that no call or lease had before. It is never 0, and never negative.
    pub(crate) fn next_number(&mut self) -> Number {
        self.last_number += 1;
        self.last_number
    }

    /// Adds a call.
    pub(crate) fn insert(&mut self, slot: u32, call: Call) {
        let slot = slot as usize;
        if self.calls.len() <= slot {
            self.calls.resize_with(slot + 1, || None);
        }
        let earlier = self.calls[slot].replace(call);
        self.taken += usize::from(earlier.is_none());
    }

    /// Removes and returns the call with this slot and number. None if it is not pending.
    pub(crate) fn settle(&mut self, slot: u32, number: Number) -> Option<Call> {
        let place = self.calls.get_mut(slot as usize)?;
        let call = place.take_if(|call| call.number == number)?;
        self.taken -= 1;
        Some(call)
    }

    /// Removes and returns all calls that can be cancelled.
    pub(crate) fn take_cancellable(&mut self) -> Vec<Call> {
        let cancellable = |place: &mut Option<Call>| place.take_if(|call| call.job.is_some());
        let calls: Vec<_> = self.calls.iter_mut().filter_map(cancellable).collect();
        self.taken -= calls.len();
        calls
    }

    /// Removes the call in this slot. False if there was none.
    pub(crate) fn cancel(&mut self, slot: u32) -> bool {
        let call = self.calls.get_mut(slot as usize).and_then(Option::take);
        self.taken -= usize::from(call.is_some());
        call.is_some()
    }
}
