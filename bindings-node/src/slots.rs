//! The calls that JavaScript waits for, by the slot it gave each.

use futures_util::future::AbortHandle;

#[derive(Default)]
pub(crate) struct Slots {
    calls: Vec<Option<Call>>,
    taken: usize,
}

struct Call {
    /// Slots are used again: an outcome that is late for its own call must not pass for the next one's.
    number: u32,
    abort: Option<AbortHandle>,
}

impl Slots {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    pub(crate) fn insert(&mut self, slot: u32, number: u32, abort: Option<AbortHandle>) {
        let slot = slot as usize;
        if self.calls.len() <= slot {
            self.calls.resize_with(slot + 1, || None);
        }
        let earlier = self.calls[slot].replace(Call { number, abort });
        self.taken += usize::from(earlier.is_none());
    }

    /// The call of this slot and number has its outcome; false if it was not waited for.
    pub(crate) fn settle(&mut self, slot: u32, number: u32) -> bool {
        let place = self.calls.get_mut(slot as usize);
        let settled = place.and_then(|call| call.take_if(|call| call.number == number)).is_some();
        self.taken -= usize::from(settled);
        settled
    }

    /// Nobody waits for the call of this slot any more; false if nobody did.
    pub(crate) fn abort(&mut self, slot: u32) -> bool {
        let Some(call) = self.calls.get_mut(slot as usize).and_then(Option::take) else {
            return false;
        };
        self.taken -= 1;
        if let Some(abort) = call.abort {
            abort.abort();
        }
        true
    }
}
