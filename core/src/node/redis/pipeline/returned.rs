//! Remembers keys that were released over a connection, by their hashes in a fixed number of slots.
//!
//! A false result only costs time. No grant or refusal depends on it.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// The number of slots.
const PLACES: usize = 4096;

/// The hashes of the keys. Allocates memory with the first key.
#[derive(Default)]
pub(super) struct Returned(Vec<u32>);

impl Returned {
    /// Remembers the key.
    pub(super) fn note(&mut self, key: &[u8]) {
        if self.0.is_empty() {
            self.0 = vec![0; PLACES];
        }
        let (place, mark) = places(key);
        self.0[place] = mark;
    }

    /// Whether the key is remembered.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        let (place, mark) = places(key);
        self.0.get(place) == Some(&mark)
    }
}

/// Returns the slot of the key, and its mark, which is never zero.
fn places(key: &[u8]) -> (usize, u32) {
    let hash = FixedState::default().hash_one(key);
    let mark = u32::try_from(hash >> 32).unwrap_or_default();
    (
        usize::from(u16::from_le_bytes([hash.to_le_bytes()[0], hash.to_le_bytes()[1]])) % PLACES,
        mark | 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_only_released_keys() {
        let mut returned = Returned::default();
        assert!(!returned.has(b"a"));
        returned.note(b"a");
        returned.note(b"b");
        assert!(returned.has(b"a") && returned.has(b"b") && !returned.has(b"c"));
    }
}
