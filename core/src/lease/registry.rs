//! The leases of one client: which there are, on which keys, and which of them the monitor has not seen yet.
//!
//! It knows leases as numbers, keys and weak references, and asks nothing of them: the monitor stands above it,
//! a lease's state beside it. Its lock may be held while a lease's own is taken, never the other way round; and
//! no lease may be let go of under it, for the end of the last handle comes here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::clock::{Instant, NEVER};
use crate::keyed::{Key, Keyed};

/// New leases are looked at this often; one that is gone by then was never looked at.
/// Most leases live for a moment only, and looking at each would wake the monitor for each.
const GRACE: Duration = Duration::from_millis(100);
/// Released leases that were never looked at, above which the list of new ones is cleaned.
const UNSEEN: usize = 1024;

/// Every lease that was not given back yet, for as long as somebody has a handle on it.
pub(crate) struct Registry<L> {
    /// One for everything in it: a lease is never on a key without being in the list.
    entries: Mutex<Entries<L>>,
    /// Rung where a new lease cannot wait for the monitor's next look.
    early: Notify,
}

struct Entries<L> {
    next_id: u64,
    /// By their numbers, which are in the order in which they were made. Weak: a lease that nobody has a handle on ends,
    /// and is renewed no more.
    leases: HashMap<u64, Weak<L>, foldhash::quality::RandomState>,
    /// The leases on each key; several where tokens were attached to.
    by_key: Keyed<SmallVec<[u64; 2]>>,
    /// Those that the monitor has not seen.
    new: Vec<u64>,
    /// When the monitor looks here by itself.
    planned: Instant,
}

impl<L> Registry<L> {
    /// No lease yet.
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

    /// A lease on these keys, whose `first` event may be earlier than the monitor looks here by itself.
    pub(crate) fn add(&self, id: u64, keys: &Arc<[String]>, lease: &Arc<L>, first: Instant) {
        let mut entries = self.entries();
        entries.leases.insert(id, Arc::downgrade(lease));
        for key in Key::each(keys) {
            entries.by_key.entry(key).or_default().push(id);
        }
        entries.new.push(id);
        // Only then: to wake the monitor for each lease would cost most of them a system call.
        let early = first < entries.planned;
        drop(entries);
        if early {
            self.early.notify_one();
        }
    }

    /// The lease is over; nothing happens if it was removed before.
    pub(crate) fn remove(&self, id: u64, keys: &[String]) {
        let mut entries = self.entries();
        // A release removes it, and so does the end of its last handle.
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
        // Leases that come and go within a moment are never looked at: their numbers must not pile up.
        if entries.new.len() > UNSEEN + 2 * entries.leases.len() {
            let Entries { new, leases, .. } = &mut *entries;
            new.retain(|id| leases.contains_key(id));
        }
    }

    /// How many leases there are.
    pub(crate) fn count(&self) -> usize {
        self.entries().leases.len()
    }

    /// The leases that were not released yet, in the order in which they were made.
    ///
    /// Some may be over by now: whoever asks looks at each.
    pub(crate) fn leases(&self) -> Vec<Arc<L>> {
        let entries = self.entries();
        let mut leases: Vec<_> = entries.leases.iter().collect();
        leases.sort_unstable_by_key(|(id, _)| **id);
        leases.into_iter().filter_map(|(_, lease)| lease.upgrade()).collect()
    }

    /// This client's own leases on a key.
    pub(crate) fn on(&self, key: &str) -> Vec<Arc<L>> {
        let entries = self.entries();
        let ids = entries.by_key.get(key).into_iter().flatten();
        ids.filter_map(|id| entries.leases.get(id).and_then(Weak::upgrade)).collect()
    }

    /// Those of these numbers that there are, each with what it was asked for with.
    ///
    /// All under one lock: thousands may be due at once.
    pub(crate) fn find<T>(&self, wanted: Vec<(T, u64)>) -> Vec<(T, Arc<L>)> {
        let entries = self.entries();
        let find = |id| entries.leases.get(&id).and_then(Weak::upgrade);
        wanted.into_iter().filter_map(|(with, id)| find(id).map(|lease| (with, lease))).collect()
    }

    /// Shows the monitor the new leases; `next` is when its next event is then. Answers when to look again.
    pub(crate) fn plan(&self, now: Instant, next: impl FnOnce(&[Arc<L>]) -> Instant) -> Instant {
        let mut entries = self.entries();
        let new = std::mem::take(&mut entries.new);
        let leases: Vec<_> =
            new.iter().filter_map(|id| entries.leases.get(id).and_then(Weak::upgrade)).collect();
        // While leases come and go the monitor looks by itself, so that they need not wake it.
        let soon = if new.is_empty() { NEVER } else { now + GRACE };
        let next = next(&leases).min(soon);
        entries.planned = next;
        // Before the leases: the last handle on one may be in here, and its end looks for the entry.
        drop(entries);
        next
    }

    /// Ends when a lease is new that cannot wait until the monitor looks here by itself.
    pub(crate) async fn early(&self) {
        self.early.notified().await;
    }
}
