//! A map by Redis key.
//!
//! Every acquire looks into several. The standard library's hash costs as much as a twentieth of an acquire and a
//! release; this one is seeded at random in each process, too, as names may come from strangers.

use std::collections::HashMap;

/// What is known of each key.
pub(crate) type Keyed<V> = HashMap<String, V, foldhash::quality::RandomState>;
