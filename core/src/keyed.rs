//! A map by Redis key.
//!
//! Every acquire uses several of these maps. The hash is faster than the standard library's, and is also seeded at
//! random in each process, because names may come from untrusted input.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A map by key.
pub(crate) type Keyed<V, K = Key> = HashMap<K, V, foldhash::quality::RandomState>;

/// One of the keys of a request. It shares their memory, because entries come and go with every acquire.
#[derive(Clone)]
pub(crate) struct Key {
    keys: Arc<[String]>,
    at: usize,
}

impl Key {
    /// Returns each of these keys.
    pub(crate) fn each(keys: &Arc<[String]>) -> impl Iterator<Item = Self> {
        (0..keys.len()).map(|at| Self { keys: Arc::clone(keys), at })
    }

    /// The key as stored in Redis.
    pub(crate) fn text(&self) -> &str {
        &self.keys[self.at]
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.text()
    }
}

/// Hashes like the text, which is used for lookups.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Key {}
