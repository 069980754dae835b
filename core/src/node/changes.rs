//! What changed, on its way to the monitor of leases: each key once, however often a node says it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// This key: deleted, written, or its ttl changed.
    Key(String),
    /// Any key may have changed: a flush, or a connection that ended or began.
    All,
}

/// More bytes of names than this mean that any key may have changed.
const ROOM: usize = 256 << 10;

/// What changed since somebody looked.
#[derive(Default)]
pub(crate) struct Changes {
    pending: Mutex<Pending>,
    bell: Notify,
}

#[derive(Default)]
struct Pending {
    keys: HashSet<String>,
    bytes: usize,
    all: bool,
    closed: bool,
}

/// What the monitor is to look at.
pub(crate) struct Told {
    /// The keys that changed.
    pub(crate) keys: HashSet<String>,
    /// Any key may have changed.
    pub(crate) all: bool,
    /// Nobody is left who could tell anything.
    pub(crate) closed: bool,
}

impl Changes {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node said so.
    pub(super) fn add(&self, change: Change) {
        let mut pending = self.pending();
        match change {
            Change::All => pending.all = true,
            Change::Key(_) if pending.all => {}
            Change::Key(key) => {
                pending.bytes += key.len();
                pending.keys.insert(key);
                pending.all = pending.bytes > ROOM;
            }
        }
        if pending.all {
            (pending.keys, pending.bytes) = (HashSet::new(), 0);
        }
        drop(pending);
        self.bell.notify_one();
    }

    /// Ends when there is something to take.
    pub(crate) async fn told(&self) {
        self.bell.notified().await;
    }

    /// Takes what there is; that all keys may have changed only where it may be looked at `now`.
    pub(crate) fn take(&self, all_now: bool) -> Told {
        let mut pending = self.pending();
        pending.bytes = 0;
        let all = pending.all && all_now;
        pending.all &= !all;
        Told { keys: std::mem::take(&mut pending.keys), all, closed: pending.closed }
    }

    /// Whether that all keys may have changed is still to be looked at.
    pub(crate) fn all_waits(&self) -> bool {
        self.pending().all
    }
}

/// The end at which changes come in; its end is told, too.
pub(super) struct Teller(pub(super) Arc<Changes>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.pending().closed = true;
        self.0.bell.notify_one();
    }
}
