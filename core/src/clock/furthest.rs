//! Two clocks as one that advances with whichever runs faster.
//!
//! A client whose wall clock is being slewed back (NTP: by up to a twelfth) has its `CLOCK_BOOTTIME` slewed with
//! it, and would believe in a lease for longer than a server does; the clock that nobody slews stands still in a
//! suspend. The larger of two readings is not enough: who was ahead may be overtaken. So time is counted in
//! stretches, each by the clock that ran further in it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::per_process::fork_generation;

/// A new stretch begins when the last one is so old. Until then the first clock is enough: slewed, it lags by a twelfth
/// of this. Not at each reading: the second clock costs as much again, and the moments between the two readings add up.
const STRETCH: u64 = 1_000_000;

/// A thread that is suspended between the readings of the two clocks would count that pause by both. It reads both again where
/// they lie further apart than this, in nanoseconds.
const LONGEST_GAP: u64 = 20_000;
/// How often it does, at most: a machine may be that slow.
const MAX_READINGS: u32 = 16;

/// Where a stretch began: by our own count, and by the two clocks, in nanoseconds.
struct Start {
    /// What we had told by then.
    count: AtomicU64,
    /// What each of them said.
    clocks: [AtomicU64; 2],
}

/// No mutex: it is read often, and a forked child may find one locked for ever.
pub(super) struct Furthest {
    /// The last one is in `starts[stretch % 2]`; the next one is written beside it.
    stretch: AtomicU64,
    starts: [Start; 2],
    /// Who writes the next one: 1 + their process's number, or 0.
    writer: AtomicU32,
}

impl Furthest {
    /// No stretch has begun: the first reading begins one.
    pub(super) const fn new() -> Self {
        let starts = [Start::new(), Start::new()];
        Self { stretch: AtomicU64::new(0), starts, writer: AtomicU32::new(0) }
    }

    /// Our count, in nanoseconds; `first` and `second` read the clocks.
    pub(super) fn now(&self, first: impl Fn() -> u64, second: impl Fn() -> u64) -> u64 {
        loop {
            let stretch = self.stretch.load(Ordering::Acquire);
            let (count, clocks) = self.starts[at(stretch)].load();
            let mut one = first();
            // What was read is of one stretch only if its number still stands: a reader never waits for a
            // writer.
            fence(Ordering::Acquire);
            if self.stretch.load(Ordering::Relaxed) != stretch {
                continue;
            }
            let mut ran = one.saturating_sub(clocks[0]);
            if ran > STRETCH || stretch == 0 {
                let two;
                (one, two) = both(one, &first, &second);
                ran = one.saturating_sub(clocks[0]).max(two.saturating_sub(clocks[1]));
                // It begins with the first clock's own count, which other programs know too.
                let count = if stretch == 0 { one } else { count.saturating_add(ran) };
                self.begin(stretch, count, [one, two]);
            }
            // The first reading only begins: its answer is the next one's, so that all readers count alike.
            if stretch > 0 {
                return count.saturating_add(ran);
            }
        }
    }

    /// Begins the next stretch, unless somebody else is doing that.
    fn begin(&self, stretch: u64, count: u64, clocks: [u64; 2]) {
        let own = fork_generation().wrapping_add(1);
        let other = self.writer.load(Ordering::Relaxed);
        let taken = || {
            self.writer.compare_exchange(other, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        // Somebody else of this process writes; a parent's thread, which does not exist here, is not waited
        // for.
        if other == own || !taken() {
            return;
        }
        // Else somebody has begun it since we looked.
        if self.stretch.load(Ordering::Acquire) == stretch {
            // Who still reads the one before last finds out by the number.
            fence(Ordering::Release);
            self.starts[at(stretch + 1)].store(count, clocks);
            self.stretch.store(stretch + 1, Ordering::Release);
        }
        self.writer.store(0, Ordering::Release);
    }
}

/// Both clocks, read close to each other; `one` is what the first says now.
fn both(mut one: u64, first: impl Fn() -> u64, second: impl Fn() -> u64) -> (u64, u64) {
    for _ in 1..MAX_READINGS {
        let two = second();
        let after = first();
        if after.saturating_sub(one) <= LONGEST_GAP {
            return (one, two);
        }
        one = after;
    }
    (one, second())
}

/// Where a stretch is kept: in turns, so that the one being read is not the one being written.
fn at(stretch: u64) -> usize {
    usize::from(stretch % 2 == 1)
}

impl Start {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), clocks: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    /// Field by field: whether they belong together is found out by the stretch's number.
    fn load(&self) -> (u64, [u64; 2]) {
        let clock = |at: usize| self.clocks[at].load(Ordering::Relaxed);
        (self.count.load(Ordering::Relaxed), [clock(0), clock(1)])
    }

    /// Field by field, as [`Start::load`] reads it.
    fn store(&self, count: u64, clocks: [u64; 2]) {
        self.count.store(count, Ordering::Relaxed);
        for (at, clock) in clocks.into_iter().enumerate() {
            self.clocks[at].store(clock, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// What was counted over stretches of (how long, how far each clock ran), read every `step`.
    fn counted(stretches: &[(u32, [f64; 2])], step: u32) -> f64 {
        let (furthest, clocks) = (Furthest::new(), Cell::new([5e9, 1e9]));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a test's clocks"
        )]
        let read = |which: usize| clocks.get()[which] as u64;
        let now = || furthest.now(|| read(0), || read(1));
        let began = now();
        for (length, rates) in stretches {
            for _ in 0..length / step {
                let [one, two] = clocks.get();
                let ran = f64::from(step) * 1e6;
                clocks.set([one + ran * rates[0], two + ran * rates[1]]);
                now();
            }
        }
        f64::from(u32::try_from((now() - began) / 1000).unwrap()) / 1000.0
    }

    fn about(counted: f64, expected: f64) {
        assert!((counted - expected).abs() < expected / 100.0, "{counted} is not {expected}");
    }

    #[test]
    fn whichever_clock_runs_faster_is_followed() {
        let slow = 11.0 / 12.0;
        for step in [1, 10, 250] {
            about(counted(&[(10_000, [1.0, 1.0])], step), 10_000.0);
            about(counted(&[(10_000, [slow, 1.0])], step), 10_000.0);
            about(counted(&[(10_000, [1.0, slow])], step), 10_000.0);
            // One was far ahead by the time the other began to be the faster one.
            about(counted(&[(60_000, [1.0, 0.5]), (10_000, [slow, 1.0])], step), 70_000.0);
            // A suspend, which only one of them counts.
            about(
                counted(&[(5000, [slow, 1.0]), (60_000, [1.0, 0.0]), (5000, [slow, 1.0])], step),
                70_000.0,
            );
        }
    }

    #[test]
    fn a_pause_between_the_two_readings_counts_once() {
        let (furthest, time, pauses) =
            (Furthest::new(), Cell::new(5_000_000_000), Cell::new(false));
        let pass = |nanos: u64| time.set(time.get() + nanos);
        let second = || {
            if pauses.take() {
                pass(1_000_000_000);
            }
            time.get() - 4_000_000_000
        };
        let now = || furthest.now(|| time.get(), second);
        let (began, from) = (now(), time.get());
        for _ in 0..10 {
            pass(3_000_000);
            pauses.set(true);
            now();
            pass(3_000_000);
            assert_eq!(now() - began, time.get() - from);
        }
    }

    #[test]
    fn it_never_goes_back_whoever_reads() {
        static TOLD: AtomicU64 = AtomicU64::new(0);
        static FURTHEST: Furthest = Furthest::new();
        static TIME: AtomicU64 = AtomicU64::new(1);
        let reader = || {
            let mut last = 0;
            for _ in 0..200_000 {
                let read = || TIME.fetch_add(STRETCH / 20, Ordering::Relaxed);
                let told = FURTHEST.now(read, || TIME.load(Ordering::Relaxed) / 2);
                // Another thread may be a few readings ahead.
                assert!(told + STRETCH / 2 >= last, "{told} after {last}");
                last = told.max(last);
                TOLD.fetch_max(told, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(reader))));
        assert!(TOLD.load(Ordering::Relaxed) <= TIME.load(Ordering::Relaxed));
    }
}
