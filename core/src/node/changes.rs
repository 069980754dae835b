//! Collects changes for the monitor of leases, each key once.
//!
//! A node may report many changes while the monitor is busy. The memory for them is bounded, because keys are kept in a
//! set. Above a limit they are replaced by "all keys".

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A reported change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The key was deleted or written, or its TTL changed.
    Key(String),
    /// Keys in these hash slots may have changed, because the servers of a cluster changed.
    Slots(Vec<u16>),
    /// Any key may have changed, because of a flush or because a connection began or ended.
    All,
}

/// The limit for the names of changed keys, in bytes. Above it, any key may have changed. Bytes are counted instead of
/// keys, because a name may have up to 64 KiB.
const ROOM: usize = 256 << 10;

/// The changes since the monitor last took them.
#[derive(Default)]
pub(crate) struct Changes {
    /// Locked only briefly, to update the sets.
    pending: Mutex<Pending>,
    /// Stores one wakeup if the monitor does not wait yet, so that no change is missed.
    bell: Notify,
}

#[derive(Default)]
struct Pending {
    /// Each key once, regardless of the number of reports.
    keys: HashSet<String>,
    /// Hash slots whose keys may have changed.
    slots: HashSet<u16>,
    /// The memory that the keys take. It limits what a node that floods the client can use.
    bytes: usize,
    /// Whether any key may have changed.
    all: bool,
    /// Whether no further changes can arrive.
    closed: bool,
}

/// The changes that the monitor must check.
pub(crate) struct Told {
    /// The keys that changed.
    pub(crate) keys: HashSet<String>,
    /// Hash slots whose keys may have changed.
    pub(crate) slots: HashSet<u16>,
    /// Whether any key may have changed.
    pub(crate) all: bool,
    /// Whether no further changes can arrive.
    pub(crate) closed: bool,
}

impl Changes {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change that a node reported.
    pub(super) fn add(&self, change: Change) {
        let mut pending = self.pending();
        match change {
            Change::All => pending.all = true,
            // "All" includes it already.
            Change::Key(_) | Change::Slots(_) if pending.all => {}
            Change::Slots(slots) => pending.slots.extend(slots),
            Change::Key(key) => {
                pending.bytes += key.len();
                pending.keys.insert(key);
                pending.all = pending.bytes > ROOM;
            }
        }
        if pending.all {
            // A new set, because a cleared one would keep its memory.
            (pending.keys, pending.slots, pending.bytes) = (HashSet::new(), HashSet::new(), 0);
        }
        drop(pending);
        self.bell.notify_one();
    }

    /// Waits until there are changes to take.
    pub(crate) async fn told(&self) {
        self.bell.notified().await;
    }

    /// Takes the changed keys. Takes the slots and "all keys" only if `many_now` is set.
    ///
    /// Checking many leases costs one round for each of them, so the monitor decides how often to do that.
    pub(crate) fn take(&self, many_now: bool) -> Told {
        let mut pending = self.pending();
        pending.bytes = 0;
        let keys = std::mem::take(&mut pending.keys);
        let (mut slots, mut all) = (HashSet::new(), false);
        if many_now {
            slots = std::mem::take(&mut pending.slots);
            all = std::mem::take(&mut pending.all);
        }
        Told { keys, slots, all, closed: pending.closed }
    }

    /// Whether changed slots or "all keys" are still to be taken.
    pub(crate) fn many_wait(&self) -> bool {
        let pending = self.pending();
        pending.all || !pending.slots.is_empty()
    }
}

/// The sending side of the changes. Dropping it notifies the monitor, which then ends.
pub(super) struct Teller(pub(super) Arc<Changes>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.pending().closed = true;
        self.0.bell.notify_one();
    }
}
