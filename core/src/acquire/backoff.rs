//! Delays between rounds.

use std::time::Duration;

/// Growing, jittered delays: contenders that met once do not meet again in step.
pub(crate) struct Backoff {
    /// The next delay, before chance has its say.
    next: Duration,
}

impl Backoff {
    /// Begins with this delay.
    pub(crate) fn new(first: Duration) -> Self {
        Self { next: first }
    }

    /// The next one; none is longer than `longest`.
    pub(crate) fn delay(&mut self, longest: Duration) -> Duration {
        let full = self.next;
        // Slower than doubling: contention that ends is noticed soon.
        self.next = (full.mul_f64(1.5)).min(longest);
        jittered(full)
    }
}

/// Between half of it and all of it, at random.
pub(crate) fn jittered(time: Duration) -> Duration {
    // At least half, because after a pause near zero the same clients would collide again.
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}
