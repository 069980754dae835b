//! The leases of one client, their keys, and the new leases that the monitor has not seen yet.
//!
//! The registry stores leases as numbers, keys and weak references and never calls them. Its lock may be held while a
//! lease's lock is taken, never the reverse. Never drop the last reference to a lease under the registry's lock,
//! because the lease's `Drop` takes that lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::clock::{Instant, NEVER};
use crate::keyed::{Key, Keyed};

/// How often the monitor looks at new leases. It never sees one that ended earlier.
///
/// Most leases are short, and looking at each would wake the monitor each time.
const GRACE: Duration = Duration::from_millis(100);
/// How many ended leases the list of new ones may hold before it is cleaned.
const UNSEEN: usize = 1024;

/// Every lease that is not released yet and has a handle.
pub(crate) struct Registry<L> {
    /// One lock for all fields, so that a lease with a key is always in the list.
    entries: Mutex<Entries<L>>,
    /// Notified when a new lease cannot wait for the monitor's next look.
    early: Notify,
}

struct Entries<L> {
    next_id: u64,
    /// The leases by number, in order of creation. Weak references: a lease without a handle ends and is not renewed.
    leases: HashMap<u64, Weak<L>, foldhash::quality::RandomState>,
    /// The leases on each key. There are several after an attach.
    by_key: Keyed<SmallVec<[u64; 2]>>,
    /// Leases that the monitor has not seen yet.
    new: Vec<u64>,
    /// When the monitor looks next without a notification.
    planned: Instant,
}

impl<L> Registry<L> {
    pub(crate) fn new() -> Self {
        let entries = Entries {
            next_id: 0,
            leases: HashMap::default(),
            by_key: Keyed::default(),
            new: Vec::new(),
            planned: NEVER,
        };
        Self { entries: Mutex::new(entries), early: Notify::new() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries<L>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other lease of the client has.
    pub(crate) fn new_id(&self) -> u64 {
        let mut entries = self.entries();
        entries.next_id += 1;
        entries.next_id
    }

    /// Adds a lease on these keys. Wakes the monitor if the lease's `first` event is earlier than the monitor's next
    /// look.
    pub(crate) fn add(&self, id: u64, keys: &Arc<[String]>, lease: &Arc<L>, first: Instant) {
        let mut entries = self.entries();
        entries.leases.insert(id, Arc::downgrade(lease));
        for key in Key::each(keys) {
            entries.by_key.entry(key).or_default().push(id);
        }
        entries.new.push(id);
        // Not for every lease: for most of them the wake-up would be a wasted system call.
        let early = first < entries.planned;
        drop(entries);
        if early {
            self.early.notify_one();
        }
    }

    /// Removes a lease. Does nothing if it is already removed.
    pub(crate) fn remove(&self, id: u64, keys: &[String]) {
        let mut entries = self.entries();
        // A release removes the lease, and so does the drop of its last handle.
        if entries.leases.remove(&id).is_none() {
            return;
        }
        for key in keys {
            if let Some(ids) = entries.by_key.get_mut(key.as_str()) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    entries.by_key.remove(key.as_str());
                }
            }
        }
        // The monitor never sees very short leases. Their numbers must not pile up.
        if entries.new.len() > UNSEEN + 2 * entries.leases.len() {
            let Entries { new, leases, .. } = &mut *entries;
            new.retain(|id| leases.contains_key(id));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.entries().leases.len()
    }

    /// The leases that are not released yet, in order of creation.
    ///
    /// Some may have ended, so callers must check each.
    pub(crate) fn leases(&self) -> Vec<Arc<L>> {
        let entries = self.entries();
        let mut leases: Vec<_> = entries.leases.iter().collect();
        leases.sort_unstable_by_key(|(id, _)| **id);
        leases.into_iter().filter_map(|(_, lease)| lease.upgrade()).collect()
    }

    /// This client's leases on a key.
    pub(crate) fn on(&self, key: &str) -> Vec<Arc<L>> {
        let entries = self.entries();
        let ids = entries.by_key.get(key).into_iter().flatten();
        ids.filter_map(|id| entries.leases.get(id).and_then(Weak::upgrade)).collect()
    }

    /// Finds the leases with these numbers, and returns each with the value that came with its number.
    ///
    /// Takes the lock only once, because thousands may be due at the same time.
    pub(crate) fn find<T>(&self, wanted: Vec<(T, u64)>) -> Vec<(T, Arc<L>)> {
        let entries = self.entries();
        let find = |id| entries.leases.get(&id).and_then(Weak::upgrade);
        wanted.into_iter().filter_map(|(with, id)| find(id).map(|lease| (with, lease))).collect()
    }

    /// Passes the new leases to `next`, which returns the time of the monitor's next event. Returns when to look again.
    pub(crate) fn plan(&self, now: Instant, next: impl FnOnce(&[Arc<L>]) -> Instant) -> Instant {
        let mut entries = self.entries();
        let new = std::mem::take(&mut entries.new);
        let leases: Vec<_> =
            new.iter().filter_map(|id| entries.leases.get(id).and_then(Weak::upgrade)).collect();
        // While leases come and go, the monitor looks periodically, so that new leases need not wake it.
        let soon = if new.is_empty() { NEVER } else { now + GRACE };
        let next = next(&leases).min(soon);
        entries.planned = next;
        // Unlock before dropping the leases: one may be the last reference, and its `Drop` takes the lock.
        drop(entries);
        next
    }

    /// Waits until a new lease cannot wait for the monitor's next look.
    pub(crate) async fn early(&self) {
        self.early.notified().await;
    }
}
