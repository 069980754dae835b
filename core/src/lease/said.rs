//! Remembers warnings about leases, so that each is logged once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// How many call sites are remembered. No warning is logged for further ones.
const PLACES: usize = 100;

/// The call sites that a warning was logged for, or keys if the call site is unknown.
#[derive(Default)]
pub(crate) struct Said(Mutex<HashSet<String>>);

impl Said {
    /// Whether a warning must be logged for this call site.
    pub(super) fn is_new(&self, place: String) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.len() < PLACES && said.insert(place)
    }
}
