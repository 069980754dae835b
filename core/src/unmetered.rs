//! Replaces the metrics if the feature `metrics` is disabled. It records nothing and reads no clock.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::stats::{Counts, Stats};

/// Replaces the start time of an acquire.
pub(crate) struct Began;

impl Began {
    #[inline]
    pub(crate) fn now(_clock: &dyn Clock) -> Self {
        Self
    }

    /// Records nothing.
    #[inline]
    #[allow(clippy::unused_self, reason = "as it is with the feature")]
    pub(crate) fn came_to(&self, _outcome: &'static str, _clock: &dyn Clock) {}
}

/// Records nothing.
#[inline]
pub(crate) fn held(_end: &'static str, _time: impl FnOnce() -> Duration) {}

/// Records nothing.
#[inline]
pub(crate) fn watch(_counts: &Arc<Counts>, _now: impl Fn(&mut Stats) + Send + Sync + 'static) {}
