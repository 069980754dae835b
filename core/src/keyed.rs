//! A map by Redis key.
//!
//! Every acquire looks into several, and puts itself into some. The standard library's hash costs as much as a twentieth of an
//! acquire and a release; this one is seeded at random in each process, too, as names may come from strangers.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What is known of each key.
pub(crate) type Keyed<V, K = Key> = HashMap<K, V, foldhash::quality::RandomState>;

/// One of the keys that are asked for together. It shares their memory: entries come and go with every acquire.
#[derive(Clone)]
pub(crate) struct Key {
    keys: Arc<[String]>,
    at: usize,
}

impl Key {
    /// Each of them.
    pub(crate) fn each(keys: &Arc<[String]>) -> impl Iterator<Item = Self> {
        (0..keys.len()).map(|at| Self { keys: Arc::clone(keys), at })
    }

    /// As it is in Redis.
    pub(crate) fn text(&self) -> &str {
        &self.keys[self.at]
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.text()
    }
}

/// As the text does: a map is asked by that.
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
