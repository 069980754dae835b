//! The calls that JavaScript waits for, by the slot it gave each.

use redlock::ffi::{Acquire, Job};

use crate::number::Number;

/// A call that JavaScript waits for.
pub(crate) struct Call {
    /// Slots are used again: an outcome that is late for its own call must not pass for the next one's.
    pub(crate) number: Number,
    /// Ends the call when it is dropped; none for one that cannot be cancelled.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) job: Option<Job>,
    /// What to ask again if the lease ends before its caller runs.
    pub(crate) acquire: Option<Acquire>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Pending {
    calls: Vec<Option<Call>>,
    taken: usize,
}

impl Pending {
    /// Whether JavaScript waits for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Waits for this call from now on.
    pub(crate) fn insert(&mut self, slot: u32, call: Call) {
        let slot = slot as usize;
        if self.calls.len() <= slot {
            self.calls.resize_with(slot + 1, || None);
        }
        let earlier = self.calls[slot].replace(call);
        self.taken += usize::from(earlier.is_none());
    }

    /// The call of this slot and number, which has its outcome; nothing if it was not waited for.
    pub(crate) fn settle(&mut self, slot: u32, number: Number) -> Option<Call> {
        let place = self.calls.get_mut(slot as usize)?;
        let call = place.take_if(|call| call.number == number)?;
        self.taken -= 1;
        Some(call)
    }

    /// Nobody waits for the call of this slot any more; false if nobody did.
    pub(crate) fn cancel(&mut self, slot: u32) -> bool {
        let call = self.calls.get_mut(slot as usize).and_then(Option::take);
        self.taken -= usize::from(call.is_some());
        call.is_some()
    }
}
