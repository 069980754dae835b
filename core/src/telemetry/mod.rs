//! Log records, tracing spans, metrics and statistics for the program.
//!
//! A subscriber and a recorder are code of the program, which may block or panic. Events and metrics reach them on
//! separate threads. Spans are made on the caller's thread, and never on the background thread. `disabled` replaces the
//! parts whose feature is off.

#[cfg(not(all(feature = "metrics", feature = "tracing")))]
mod disabled;
#[cfg(feature = "tracing")]
pub(crate) mod log;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
mod record;
mod stats;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::log;
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use crate::clock::Instant;
use crate::runtime::lock;

#[cfg(not(feature = "metrics"))]
pub(crate) use disabled::metrics;
pub(crate) use log::Spans;
pub use record::{CallSite, Level, Owner, Record, Topic, Value, listen, log_event, want};
pub(crate) use stats::Counts;
pub use stats::Stats;

/// The minimum interval after the first record, and the longest one. It doubles with each record.
const RECORD_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Admits records of one kind at growing intervals. It starts again after a time without any.
#[derive(Default)]
pub(crate) struct Throttle(Mutex<Admitted>);

#[derive(Default)]
struct Admitted {
    /// When a record was last admitted.
    at: Instant,
    /// When a record was last admitted or omitted. `None` before the first one.
    asked: Option<Instant>,
    pause: Duration,
    omitted: u64,
}

impl Throttle {
    /// Returns how many records were omitted before this one, or `None` if this one must be omitted.
    pub(crate) fn admit(&self, now: Instant) -> Option<Omitted> {
        let (least, longest) = RECORD_PAUSE;
        let mut state = lock(&self.0);
        if state.asked.replace(now).is_none_or(|asked| now.since(asked) >= longest) {
            state.pause = Duration::ZERO;
        } else if now.since(state.at) < state.pause {
            state.omitted += 1;
            return None;
        }
        state.at = now;
        state.pause = (state.pause * 2).clamp(least, longest);
        Some(Omitted(std::mem::take(&mut state.omitted)))
    }
}

/// The number of omitted records. It is formatted as the end of the next record, and is empty for zero.
pub(crate) struct Omitted(u64);

impl std::fmt::Display for Omitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => f.write_str(" (one similar record was omitted before)"),
            count => write!(f, " ({count} similar records were omitted before)"),
        }
    }
}

/// A state that is logged when it changes, at growing intervals.
pub(crate) struct Notice<T> {
    /// The state that was logged last, unless it has ended.
    logged: Option<T>,
    throttle: Throttle,
}

impl<T> Default for Notice<T> {
    fn default() -> Self {
        Self { logged: None, throttle: Throttle::default() }
    }
}

impl<T: PartialEq> Notice<T> {
    /// Returns the number of omitted records if this state must be logged. If the record must be omitted, the next call
    /// tries again.
    pub(crate) fn begins(&mut self, state: T, now: Instant) -> Option<Omitted> {
        if self.logged.as_ref() == Some(&state) {
            return None;
        }
        let omitted = self.throttle.admit(now)?;
        self.logged = Some(state);
        Some(omitted)
    }

    /// Records that no such state is left. Returns whether one was logged.
    pub(crate) fn ends(&mut self) -> bool {
        self.logged.take().is_some()
    }
}

/// How many call sites are remembered. No warning is logged for further ones.
const MAX_CALL_SITES: usize = 100;

/// The call sites that a warning was logged for, or keys if the call site is unknown.
#[derive(Default)]
pub(crate) struct Logged(Mutex<HashSet<String>>);

impl Logged {
    /// Whether a warning must be logged for this call site.
    pub(crate) fn is_new(&self, call_site: String) -> bool {
        let mut said = lock(&self.0);
        said.len() < MAX_CALL_SITES && said.insert(call_site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_start(Duration::from_secs(seconds))
    }

    #[test]
    fn throttle_admits_records_at_growing_intervals() {
        let throttle = Throttle::default();
        let mut admitted = Vec::new();
        for second in 0..1300 {
            if let Some(Omitted(omitted)) = throttle.admit(at(second)) {
                admitted.push((second, omitted));
            }
        }
        let seconds = [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111];
        assert_eq!(admitted.iter().map(|(second, _)| *second).collect::<Vec<_>>(), seconds);
        assert_eq!(admitted[..4], [(0, 0), (1, 0), (3, 1), (7, 3)]);
        // After a time without records, it starts again.
        let later = 1299 + RECORD_PAUSE.1.as_secs();
        assert!(throttle.admit(at(later)).is_some());
        assert!(throttle.admit(at(later + 1)).is_some());
    }

    #[test]
    fn logs_a_state_once_until_it_changes() {
        let mut notice = Notice::default();
        assert!(notice.begins("one", at(0)).is_some());
        assert!(notice.begins("one", at(1000)).is_none());
        assert!(notice.begins("two", at(2000)).is_some());
        assert!(notice.begins("three", at(2000)).is_none(), "too early");
        assert!(notice.begins("three", at(2001)).is_some());
        assert!(notice.ends());
        assert!(!notice.ends());
        assert!(notice.begins("three", at(3000)).is_some());
    }
}
