//! A map by Redis key, and a list of entries with ascending numbers.
//!
//! Every acquire uses several of these maps. The hash is faster than the standard library's, and is also seeded at
//! random in each process, because names may come from untrusted input.
//!
//! Most lists have one entry. Thousands of callers may wait for one key, and end together. A removal that moved all
//! later entries would take time proportional to their square. Here it leaves a gap, and the gaps are closed together.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

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

/// The entries by number.
pub(crate) struct Numbered<T> {
    /// In order of their numbers. A removed entry is `None`, and the first entry is not.
    entries: SmallVec<[(u64, Option<T>); 1]>,
    /// The number of removed entries at the beginning, and of all of them.
    first: u32,
    removed: u32,
}

/// Gaps are kept in lists up to this length.
const SHORT: usize = 8;

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { entries: SmallVec::new(), first: 0, removed: 0 }
    }
}

impl<T> Numbered<T> {
    /// Adds an entry. Its number is usually the highest.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        match self.find(number) {
            Ok(at) if self.entries[at].1.is_some() => self.entries[at].1 = Some(value),
            // Numbers are not used again.
            Ok(_) => {}
            Err(at) => {
                self.entries.insert(at, (number, Some(value)));
                // A thread may be late with its number, so that later ones are removed already.
                self.first = self.first.min(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
    }

    /// Removes and returns an entry.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.find(number).ok()?;
        let value = self.entries[at].1.take()?;
        self.removed += 1;
        let is_gap = |at: u32| matches!(self.entries.get(at as usize), Some((_, None)));
        while is_gap(self.first) {
            self.first += 1;
        }
        let (removed, length) = (self.removed as usize, self.entries.len());
        if removed == length || length > SHORT && removed * 2 > length {
            self.close_gaps();
        }
        Some(value)
    }

    /// Removes all entries for which `keep` returns false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.entries.retain(|(_, entry)| entry.as_ref().is_some_and(&mut keep));
        (self.first, self.removed) = (0, 0);
    }

    fn close_gaps(&mut self) {
        self.retain(|_| true);
    }

    /// The entries in order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let entries = self.entries[self.first as usize..].iter();
        entries.filter_map(|(number, entry)| Some((*number, entry.as_ref()?)))
    }

    /// The lowest number.
    pub(crate) fn first(&self) -> Option<u64> {
        self.entries.get(self.first as usize).map(|(number, _)| *number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first as usize == self.entries.len()
    }

    fn find(&self, number: u64) -> Result<usize, usize> {
        match self.entries.last() {
            Some((last, _)) if *last < number => Err(self.entries.len()),
            _ => self.entries.binary_search_by_key(&number, |(number, _)| *number),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn late_entry_before_a_gap_is_found() {
        let mut list = Numbered::default();
        [6, 7].into_iter().for_each(|number| list.insert(number, number));
        assert_eq!(list.remove(6), Some(6));
        list.insert(5, 5);
        assert_eq!(list.iter().collect::<Vec<_>>(), [(5, &5), (7, &7)]);
        assert_eq!((list.first(), list.remove(7), list.is_empty()), (Some(5), Some(7), false));
        assert_eq!((list.remove(5), list.is_empty()), (Some(5), true));
    }

    #[test]
    fn entries_are_those_of_a_map() {
        let (mut list, mut map) = (Numbered::default(), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(7);
        for number in 0..10_000_u64 {
            let number = if number % 50 == 3 { number - 2 + 20_000 } else { number };
            list.insert(number, number);
            map.insert(number, number);
            while map.len() > 20 || random.u8(..3) == 0 {
                let Some(other) = map.keys().copied().nth(random.usize(..map.len().max(1))) else {
                    break;
                };
                assert_eq!(list.remove(other), map.remove(&other));
                assert_eq!(list.remove(other), None);
            }
            assert!(list.iter().eq(map.iter().map(|(number, value)| (*number, value))));
            assert_eq!(
                (list.first(), list.is_empty()),
                (map.keys().next().copied(), map.is_empty())
            );
            assert!(list.entries.len() <= SHORT.max(2 * map.len() + 2), "gaps are closed");
        }
    }
}
