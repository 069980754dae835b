//! A server tells of a key once for each time it was read: one that tells of more floods us.

use std::time::Duration;

use crate::clock::Instant;
use crate::node::Fault;

/// So many pushes in a window that nobody asked for are an accident: debris of an earlier tracking table, an expiry.
const SPARE: u64 = 10_000;
const WINDOW: Duration = Duration::from_secs(1);
/// That all keys may have changed is as much work as this many keys.
const ALL: u64 = 100;

/// How much the server has told lately, and how much it may.
pub(super) struct Flood {
    begun: Instant,
    asked: u64,
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
        (self.told > self.asked + SPARE).then(|| {
            let told = self.told;
            Fault::new(format!("the server floods: it told of {told} changes within a second"))
        })
    }
}
