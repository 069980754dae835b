//! The reported changes that the monitor of leases has not checked yet.
//!
//! A node may report many changes while the monitor is busy. The memory for them is bounded, because keys are kept in a
//! set. Above a limit they are replaced by "all keys".

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use super::slots::slot;
use crate::runtime::lock;

/// A reported change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The key was deleted or written, or its TTL changed.
    Key(String),
    /// Keys in these hash slots may have changed, because the servers of a cluster changed.
    Slots(Vec<u16>),
    /// Any key may have changed since its vote was read: the server deleted every key, or a connection ended.
    Reset,
    /// Any key may have changed before the next vote: a connection began.
    All,
}

/// How many of the latest changes are kept for locks that are being acquired.
const MAX_RECENT: usize = 64;

/// What a recent change concerns, as a hash: a key, a slot, or any key.
fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The limit for the names of changed keys, in bytes. Above it, any key may have changed. Bytes are counted instead of
/// keys, because a name may have up to 64 KiB.
const MAX_KEY_BYTES: usize = 256 << 10;

/// The changes since the monitor last took them.
#[derive(Default)]
pub(crate) struct Changes {
    /// Locked only briefly, to update the sets.
    pending: Mutex<Pending>,
    /// Stores one wakeup if the monitor does not wait yet, so that no change is missed.
    changed: Notify,
    /// The number of changes so far. Written under the lock of `pending`.
    count: AtomicU64,
}

/// The changes that the monitor must check.
#[derive(Default)]
pub(crate) struct Pending {
    /// Each key once, regardless of the number of reports.
    pub(crate) keys: HashSet<String>,
    /// Hash slots whose keys may have changed.
    pub(crate) slots: HashSet<u16>,
    /// The memory that the keys take. It limits what a node that floods the client can use.
    bytes: usize,
    /// Whether any key may have changed.
    pub(crate) all: bool,
    /// Whether no further changes can arrive.
    pub(crate) closed: bool,
    /// The hashes of the latest changes. They stay here when the monitor takes the others.
    recent: VecDeque<u64>,
}

impl Changes {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    pub(super) fn add(&self, change: Change) {
        let mut pending = self.pending();
        self.remember(&mut pending.recent, &change);
        self.insert(pending, change);
    }

    /// Has a new lease on this key checked. Not counted as a change, because each check could otherwise cause another
    /// one.
    pub(super) fn check(&self, key: String) {
        self.insert(self.pending(), Change::Key(key));
    }

    fn insert(&self, mut pending: MutexGuard<'_, Pending>, change: Change) {
        match change {
            Change::All | Change::Reset => pending.all = true,
            // Any key may have changed, which includes this change.
            Change::Key(_) | Change::Slots(_) if pending.all => {}
            Change::Slots(slots) => pending.slots.extend(slots),
            Change::Key(key) => {
                pending.bytes += key.len();
                pending.keys.insert(key);
                pending.all = pending.bytes > MAX_KEY_BYTES;
            }
        }
        if pending.all {
            // A new set, because a cleared one would keep its memory.
            (pending.keys, pending.slots, pending.bytes) = (HashSet::new(), HashSet::new(), 0);
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Counts a change. A lock that is being acquired has no lease yet that the monitor could check.
    fn remember(&self, recent: &mut VecDeque<u64>, change: &Change) {
        let mut add = |hash| {
            recent.truncate(MAX_RECENT - 1);
            recent.push_front(hash);
            self.count.fetch_add(1, Ordering::Release);
        };
        match change {
            Change::Key(key) => add(hash(key)),
            Change::Slots(slots) if slots.len() < MAX_RECENT => {
                slots.iter().map(hash).for_each(add);
            }
            Change::Slots(_) | Change::Reset => add(hash(())),
            // A vote that was sent before does not count, and one that is sent afterwards knows the server's state.
            Change::All => {}
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether a change since this number may concern these keys.
    pub(super) fn may_concern(&self, since: u64, keys: &[String]) -> bool {
        if self.count() == since {
            return false;
        }
        let pending = self.pending();
        let new = usize::try_from(self.count() - since).unwrap_or(usize::MAX);
        let hashes = keys.iter().flat_map(|key| [hash(key), hash(slot(key))]);
        let ours: HashSet<u64> = hashes.chain([hash(())]).collect();
        new > pending.recent.len()
            || pending.recent.iter().take(new).any(|hash| ours.contains(hash))
    }

    /// Waits until there are changes to take.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes the changed keys. Takes the slots and "all keys" only if `many_now` is set.
    ///
    /// Checking many leases costs one round for each of them, so the monitor decides how often to do that.
    pub(crate) fn take(&self, many_now: bool) -> Pending {
        let mut pending = self.pending();
        pending.bytes = 0;
        let keys = std::mem::take(&mut pending.keys);
        let (mut slots, mut all) = (HashSet::new(), false);
        if many_now {
            slots = std::mem::take(&mut pending.slots);
            all = std::mem::take(&mut pending.all);
        }
        Pending { keys, slots, all, closed: pending.closed, ..Pending::default() }
    }

    /// Whether changed slots or "all keys" are still to be taken.
    pub(crate) fn many_wait(&self) -> bool {
        let pending = self.pending();
        pending.all || !pending.slots.is_empty()
    }
}

/// The sending side of the changes. Dropping it notifies the monitor, which then ends.
pub(super) struct ChangeSender(pub(super) Arc<Changes>);

impl Drop for ChangeSender {
    fn drop(&mut self) {
        self.0.pending().closed = true;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Change {
        Change::Key(name.to_owned())
    }

    #[test]
    fn a_change_concerns_locks_on_its_key_or_slot() {
        let (changes, ours) = (Changes::default(), ["a".to_owned(), "b".to_owned()]);
        let concerns = |change| {
            let since = changes.count();
            changes.add(change);
            changes.may_concern(since, &ours)
        };
        assert!(!changes.may_concern(0, &ours), "no change");
        assert!(concerns(key("a")) && concerns(key("b")) && !concerns(key("c")));
        assert!(concerns(Change::Slots(vec![1, slot("b")])) && !concerns(Change::Slots(vec![1])));
        assert!(concerns(Change::Reset) && concerns(Change::Slots((0..500).collect())));
        assert!(!concerns(Change::All), "a connection began");
        assert!(!changes.may_concern(changes.count(), &ours), "all are older");
    }

    #[test]
    fn among_too_many_changes_any_lock_may_be_concerned() {
        let (changes, ours) = (Changes::default(), ["a".to_owned()]);
        for number in 0..MAX_RECENT {
            changes.add(key(&number.to_string()));
        }
        assert!(!changes.may_concern(0, &ours));
        changes.add(key("other"));
        assert!(changes.may_concern(0, &ours) && !changes.may_concern(1, &ours));
    }
}
