//! In place of the metrics, where the feature `metrics` is off: nobody is told, and no clock is read for it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::stats::{Counts, Stats};

/// Nobody asks when.
pub(crate) struct Began;

impl Began {
    #[inline]
    pub(crate) fn now(_clock: &dyn Clock) -> Self {
        Self
    }

    /// Nobody is told of it.
    #[inline]
    #[allow(clippy::unused_self, reason = "as it is with the feature")]
    pub(crate) fn came_to(&self, _outcome: &'static str, _clock: &dyn Clock) {}
}

/// Nobody is told of it.
#[inline]
pub(crate) fn held(_end: &'static str, _time: impl FnOnce() -> Duration) {}

/// Nobody reads them.
#[inline]
pub(crate) fn watch(_counts: &Arc<Counts>, _now: impl Fn(&mut Stats) + Send + Sync + 'static) {}
