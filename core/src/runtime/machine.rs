//! Monotonic time of the operating system that also counts while the machine is suspended.
//!
//! NTP may slow a wall clock down by up to a twelfth, and `CLOCK_BOOTTIME` is slowed down with it. With this clock
//! alone, a client would consider a lease valid for longer than the server does. The other clock is not slewed, but it
//! stops while the machine is suspended. The larger of the two readings is not enough, because the slower clock may be
//! far ahead. Time is therefore counted in stretches, each measured by the clock that advanced further in it.
//! The clock that is not slewed is not enough either: if NTP speeds up the clocks of client and server together, the
//! server's keys expire earlier by it.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use super::fork_generation;

/// A point in time of one [`Clock`](crate::clock::Clock). Only differences have a meaning.
///
/// Stored as nanoseconds in 64 bits, which is enough for 584 years. It is compact because every lease has several of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

/// Converts to nanoseconds, saturating at the maximum.
pub(crate) const fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos() as u64)
}

impl Instant {
    /// The instant at `elapsed` after the start of the clock.
    pub const fn from_start(elapsed: Duration) -> Self {
        Self(nanos(elapsed))
    }

    /// Time from `earlier` to `self`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant at `elapsed` nanoseconds after the start of the clock.
    pub(crate) const fn from_nanos(elapsed: u64) -> Self {
        Self(elapsed)
    }

    /// Nanoseconds since the start of the clock, as this type stores them.
    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds since the start of the clock.
    pub fn as_nanos(self) -> u128 {
        self.0.into()
    }
}

/// Later than any other instant. Adding to it does not change it.
pub(crate) const NEVER: Instant = Instant::from_start(Duration::MAX);

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        // Saturates, because "forever" is also a duration.
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        // Saturates at the start of the clock.
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}

/// The current time. It starts with the value of the clock that counts a suspend, and then follows the faster clock.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
pub(crate) fn now() -> Instant {
    static CLOCK: SuspendAwareClock = SuspendAwareClock::new();
    // On macOS, CLOCK_MONOTONIC continues during sleep, unlike CLOCK_UPTIME_RAW.
    #[cfg(target_os = "macos")]
    const COUNTS_SUSPEND: libc::clockid_t = libc::CLOCK_MONOTONIC;
    #[cfg(not(target_os = "macos"))]
    const COUNTS_SUSPEND: libc::clockid_t = libc::CLOCK_BOOTTIME;
    let now = CLOCK.now(|| read_clock(COUNTS_SUSPEND), || read_clock(libc::CLOCK_MONOTONIC_RAW));
    Instant::from_nanos(now)
}

/// The current time, on systems with only one such clock.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android", target_os = "macos"))))]
pub(crate) fn now() -> Instant {
    Instant::from_nanos(read_clock(libc::CLOCK_MONOTONIC))
}

/// Reads a clock in nanoseconds. Panics if the clock is missing, because no lease could be held safely without it.
#[cfg(unix)]
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec, and every supported kernel has these clocks.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(answer, 0, "the system has no monotonic clock");
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// The current time, on systems without numbered clocks.
#[cfg(not(unix))]
pub(crate) fn now() -> Instant {
    // On Windows, the performance counter behind std's Instant continues during sleep.
    use std::sync::OnceLock;
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    Instant::from_start(elapsed)
}

/// The length of a stretch in nanoseconds. Within a stretch only the first clock is read.
///
/// If it is slewed, it lags by at most a twelfth of this. Reading the second clock every time would double the cost,
/// and the delays between the two readings would add up.
const STRETCH: u64 = 1_000_000;

/// The largest accepted gap between readings of the two clocks, in nanoseconds.
///
/// If the thread is suspended between the two readings, both clocks would count that pause. Both are then read again.
const LONGEST_GAP: u64 = 20_000;
/// How often both clocks are read at most. A very slow machine may never read them within the gap.
const MAX_READINGS: u32 = 16;

/// The start of a stretch in nanoseconds: the combined count and both clocks.
struct Start {
    count: AtomicU64,
    /// The reading of each clock at the start.
    clocks: [AtomicU64; 2],
}

/// A lock-free clock. A mutex would be slow for frequent readers, and a forked child may find it locked forever.
pub(super) struct SuspendAwareClock {
    /// The number of the current stretch. Its start is in `starts[stretch % 2]`, and the next one is written to the
    /// other slot.
    stretch: AtomicU64,
    starts: [Start; 2],
    /// The process that writes the next start: its fork generation plus 1, or 0 if none does.
    writer: AtomicU32,
}

impl SuspendAwareClock {
    /// No stretch has begun yet. The first reading begins one.
    pub(super) const fn new() -> Self {
        let starts = [Start::new(), Start::new()];
        Self { stretch: AtomicU64::new(0), starts, writer: AtomicU32::new(0) }
    }

    /// The combined count in nanoseconds. `first` and `second` read the clocks.
    pub(super) fn now(&self, first: impl Fn() -> u64, second: impl Fn() -> u64) -> u64 {
        loop {
            let stretch = self.stretch.load(Ordering::Acquire);
            let (count, clocks) = self.starts[at(stretch)].load();
            let mut one = first();
            // The values belong to one stretch only if its number is unchanged. Readers never wait for a writer.
            fence(Ordering::Acquire);
            if self.stretch.load(Ordering::Relaxed) != stretch {
                continue;
            }
            let ran = one.saturating_sub(clocks[0]);
            if ran <= STRETCH && stretch > 0 {
                return count.saturating_add(ran);
            }
            let two;
            (one, two) = read_both(one, &first, &second);
            let ran = one.saturating_sub(clocks[0]).max(two.saturating_sub(clocks[1]));
            // The count begins with the first clock's value, which other programs can also read.
            let count = if stretch == 0 { one } else { count.saturating_add(ran) };
            self.begin_stretch(stretch, count, [one, two]);
            return count;
        }
    }

    /// Begins the next stretch, unless another thread is doing that.
    fn begin_stretch(&self, stretch: u64, count: u64, clocks: [u64; 2]) {
        let own = fork_generation().wrapping_add(1);
        let other = self.writer.load(Ordering::Relaxed);
        let taken = || {
            self.writer.compare_exchange(other, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        // Another thread of this process is writing. A thread of the parent does not exist in a forked child, so the
        // child does not wait for it.
        if other == own || !taken() {
            return;
        }
        // If the number changed, another thread began the next stretch in the meantime.
        if self.stretch.load(Ordering::Acquire) == stretch {
            // A reader of this slot notices the change by the number of the stretch.
            fence(Ordering::Release);
            self.starts[at(stretch + 1)].store(count, clocks);
            self.stretch.store(stretch + 1, Ordering::Release);
        }
        self.writer.store(0, Ordering::Release);
    }
}

/// Reads both clocks close to each other. `one` is the current value of the first clock.
fn read_both(mut one: u64, first: impl Fn() -> u64, second: impl Fn() -> u64) -> (u64, u64) {
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

/// The slot of a stretch. The slots alternate, so that the one being read is not written.
fn at(stretch: u64) -> usize {
    usize::from(stretch % 2 == 1)
}

impl Start {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), clocks: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    /// Loads field by field. The number of the stretch shows whether the fields belong together.
    fn load(&self) -> (u64, [u64; 2]) {
        let clock = |at: usize| self.clocks[at].load(Ordering::Relaxed);
        (self.count.load(Ordering::Relaxed), [clock(0), clock(1)])
    }

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

    /// The count in milliseconds over stretches of (length, rate of each clock), read every `step`.
    fn counted(stretches: &[(u32, [f64; 2])], step: u32) -> f64 {
        let (clock, clocks) = (SuspendAwareClock::new(), Cell::new([5e9, 1e9]));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a test's clocks"
        )]
        let read = |which: usize| clocks.get()[which] as u64;
        let now = || clock.now(|| read(0), || read(1));
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
    fn follows_the_faster_clock() {
        let slow = 11.0 / 12.0;
        for step in [1, 10, 250] {
            about(counted(&[(10_000, [1.0, 1.0])], step), 10_000.0);
            about(counted(&[(10_000, [slow, 1.0])], step), 10_000.0);
            about(counted(&[(10_000, [1.0, slow])], step), 10_000.0);
            // One clock was far ahead when the other became the faster one.
            about(counted(&[(60_000, [1.0, 0.5]), (10_000, [slow, 1.0])], step), 70_000.0);
            // A suspend, which only one clock counts.
            about(
                counted(&[(5000, [slow, 1.0]), (60_000, [1.0, 0.0]), (5000, [slow, 1.0])], step),
                70_000.0,
            );
        }
    }

    #[test]
    fn pause_between_two_readings_counts_once() {
        let (clock, time, pauses) =
            (SuspendAwareClock::new(), Cell::new(5_000_000_000), Cell::new(false));
        let pass = |nanos: u64| time.set(time.get() + nanos);
        let second = || {
            if pauses.take() {
                pass(1_000_000_000);
            }
            time.get() - 4_000_000_000
        };
        let now = || clock.now(|| time.get(), second);
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
    fn waits_for_no_thread_that_begins_a_stretch() {
        let clock = SuspendAwareClock::new();
        clock.writer.store(fork_generation().wrapping_add(1), Ordering::Relaxed);
        let readings = Cell::new(0);
        let read = || {
            readings.set(readings.get() + 1);
            assert!(readings.get() < 100, "it waits");
            5_000_000_000
        };
        assert_eq!(clock.now(read, || 1), 5_000_000_000);
    }

    #[test]
    fn never_goes_back_with_concurrent_readers() {
        static LARGEST: AtomicU64 = AtomicU64::new(0);
        static CLOCK: SuspendAwareClock = SuspendAwareClock::new();
        static TIME: AtomicU64 = AtomicU64::new(1);
        let reader = || {
            let mut last = 0;
            for _ in 0..200_000 {
                let read = || TIME.fetch_add(STRETCH / 20, Ordering::Relaxed);
                let reading = CLOCK.now(read, || TIME.load(Ordering::Relaxed) / 2);
                // Another thread may be a few readings ahead.
                assert!(reading + STRETCH / 2 >= last, "{reading} after {last}");
                last = reading.max(last);
                LARGEST.fetch_max(reading, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(reader))));
        assert!(LARGEST.load(Ordering::Relaxed) <= TIME.load(Ordering::Relaxed));
    }
}
