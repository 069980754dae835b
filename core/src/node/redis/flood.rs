//! A server tells of a key once for each time it was read: one that tells of more floods us.
//!
//! Each push costs a look at waiters and leases. A server, or what stands in its place, that pushes without end
//! would take the one thread on which the leases of healthy nodes are renewed: its connection is ended, as any
//! that breaks.

use std::time::Duration;

use crate::clock::Instant;
use crate::node::Fault;

/// So many pushes in a window that nobody asked for are an accident: debris of an earlier tracking table, an expiry.
const SPARE: u64 = 10_000;
/// Long enough for a burst to be evened out, short enough to end a flood before it costs a renewal.
const WINDOW: Duration = Duration::from_secs(1);
/// That all keys may have changed is as much work as this many keys.
const ALL: u64 = 100;

/// How much the server has told lately, and how much it may.
pub(super) struct Flood {
    /// When the present window began.
    begun: Instant,
    /// How many keys were read since, at most.
    asked: u64,
    /// How many changes were told since.
    told: u64,
}

impl Flood {
    /// Nothing was told yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, asked: 0, told: 0 }
    }

    /// A command was sent: each of its arguments may be a key that is read. How many there are is said first, `*3`; a
    /// command that is sent along reads no other key.
    pub(super) fn asked(&mut self, command: &[u8]) {
        // Counted from the bytes: nobody else knows what is in a command by now.
        let digits = command.iter().skip(1).map_while(|byte| char::from(*byte).to_digit(10));
        self.asked += digits.fold(0, |sum, digit| sum * 10 + u64::from(digit));
    }

    /// So many keys have changed, or all (`None`); a fault once that is more than anybody asked for.
    pub(super) fn told(&mut self, keys: Option<usize>, now: Instant) -> Option<Fault> {
        if now.since(self.begun) > WINDOW {
            // Who was read in the last moment may be told of in this one.
            *self = Self { begun: now, asked: self.asked.min(SPARE), told: 0 };
        }
        self.told += keys.map_or(ALL, |keys| u64::try_from(keys).unwrap_or(u64::MAX));
        // At once, within the window: what comes by then is already more than it is worth.
        (self.told > self.asked + SPARE).then(|| {
            let told = self.told;
            Fault::new(format!("the server floods: it told of {told} changes within a second"))
        })
    }
}
