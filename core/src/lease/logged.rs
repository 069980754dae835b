//! Remembers logged warnings about leases, so that each is logged once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// How many call sites are remembered. No warning is logged for further ones.
const MAX_CALL_SITES: usize = 100;

/// The call sites that a warning was logged for, or keys if the call site is unknown.
#[derive(Default)]
pub(crate) struct Logged(Mutex<HashSet<String>>);

impl Logged {
    /// Whether a warning must be logged for this call site.
    pub(super) fn is_new(&self, call_site: String) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.len() < MAX_CALL_SITES && said.insert(call_site)
    }
}
