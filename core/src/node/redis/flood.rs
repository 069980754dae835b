//! Limits the rate of pushes. A server pushes a key once for each read of it, so more pushes than reads are a flood.
//!
//! Each push is checked against waiters and leases. A server that pushes without end would occupy the only thread,
//! which also renews the leases of healthy nodes. Its connection is closed like a broken one.

use std::time::Duration;

use crate::clock::Instant;
use crate::node::Fault;

/// The number of unrequested pushes that is accepted per window, such as for expired keys or reads of an earlier
/// connection.
const SPARE: u64 = 10_000;
/// Long enough for a burst, and short enough to end a flood before it delays a renewal.
const WINDOW: Duration = Duration::from_secs(1);
/// How many keys a push for all keys counts as.
const ALL: u64 = 100;

/// The pushes of a server in the current window, and their limit.
pub(super) struct Flood {
    /// When the current window began.
    begun: Instant,
    /// The maximum number of keys that were read since then.
    asked: u64,
    /// The number of changes that were pushed since then.
    told: u64,
}

impl Flood {
    /// Creates a window without pushes.
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, asked: 0, told: 0 }
    }

    /// Counts a command. Each argument may be a key that is read. The number of arguments comes first in the encoded
    /// command (`*3`). A prefix command reads no further key.
    pub(super) fn asked(&mut self, command: &[u8]) {
        // The encoded command is the only source of this number here.
        let digits = command.iter().skip(1).map_while(|byte| char::from(*byte).to_digit(10));
        self.asked += digits.fold(0, |sum, digit| sum * 10 + u64::from(digit));
    }

    /// Counts a push of this number of keys, or of all keys (`None`). Returns an error if the pushes exceed the limit.
    pub(super) fn told(&mut self, keys: Option<usize>, now: Instant) -> Option<Fault> {
        if now.since(self.begun) > WINDOW {
            // Keys that were read at the end of the last window may be pushed in this one.
            *self = Self { begun: now, asked: self.asked.min(SPARE), told: 0 };
        }
        self.told += keys.map_or(ALL, |keys| u64::try_from(keys).unwrap_or(u64::MAX));
        // Checked immediately and not at the end of the window.
        (self.told > self.asked + SPARE).then(|| {
            let told = self.told;
            Fault::new(format!(
                "the server sent too many notifications ({told} changes within a second)"
            ))
        })
    }
}
