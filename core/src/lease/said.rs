//! What was said of leases, and need not be said again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Of so many places; of those after them nothing is said.
const PLACES: usize = 100;

/// The places in the program that something was said of, or keys where no place is known.
#[derive(Default)]
pub(crate) struct Said(Mutex<HashSet<String>>);

impl Said {
    /// Whether it is to be said of this one: it was not yet.
    pub(super) fn is_new(&self, place: String) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.len() < PLACES && said.insert(place)
    }
}
