//! In place of the spans, where the feature `tracing` is off: there are none.

use std::sync::Arc;
use std::time::Duration;

use crate::log::Place;

/// None.
pub(crate) struct Spans;

#[allow(clippy::unused_self, reason = "as where there are some")]
impl Spans {
    /// None.
    pub(crate) fn acquire(_: impl FnOnce() -> String) -> Self {
        Self
    }

    /// None.
    pub(crate) fn hold(&self, _: impl FnOnce() -> String, _: &str) -> Self {
        Self
    }

    /// None.
    pub(crate) fn attached(_: impl FnOnce() -> String, _: &str) -> Self {
        Self
    }

    /// There are none.
    pub(crate) fn are_made(&self) -> bool {
        false
    }

    /// Nowhere.
    pub(crate) fn place(&self) -> Option<Arc<Place>> {
        None
    }

    /// Nobody hears of it.
    pub(crate) fn note(&self, _: &str, _: Duration) {}

    /// There is nothing to close.
    pub(crate) fn end(&self) {}
}
