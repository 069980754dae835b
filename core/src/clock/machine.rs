//! Reads the monotonic clocks of the operating system.
//!
//! Which clock counts a suspend depends on the system. [`super::suspend_aware`] combines the readings.

use super::instant::Instant;

/// The current time. It starts with the value of the clock that counts a suspend, and then follows the faster clock.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
pub(crate) fn now() -> Instant {
    use super::suspend_aware::SuspendAwareClock;
    static CLOCK: SuspendAwareClock = SuspendAwareClock::new();
    // On macOS, CLOCK_MONOTONIC continues during sleep, unlike CLOCK_UPTIME_RAW.
    #[cfg(target_os = "macos")]
    const COUNTS_SUSPEND: libc::clockid_t = libc::CLOCK_MONOTONIC;
    #[cfg(not(target_os = "macos"))]
    const COUNTS_SUSPEND: libc::clockid_t = libc::CLOCK_BOOTTIME;
    let now = CLOCK.now(|| nanos(COUNTS_SUSPEND), || nanos(libc::CLOCK_MONOTONIC_RAW));
    Instant::from_nanos(now)
}

/// The current time, on systems with only one such clock.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android", target_os = "macos"))))]
pub(crate) fn now() -> Instant {
    Instant::from_nanos(nanos(libc::CLOCK_MONOTONIC))
}

/// Reads a clock in nanoseconds. Panics if the clock is missing, because no lease could be held safely without it.
#[cfg(unix)]
fn nanos(clock: libc::clockid_t) -> u64 {
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
