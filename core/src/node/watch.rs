//! Notifies waiting acquires and the monitor of leases about changed keys.
//!
//! A change is only a reason to send a command. A push may result from an extend, or another client may already have
//! the lock again. Changes without a subscriber are dropped, except for the monitor, which always listens.
//! A node may report many changes while the monitor is busy. The memory for them is bounded, because keys are kept in a
//! set. Above a limit they are replaced by "all keys".
//!
//! The changes come from the notifications of a server (`redis/protocol/push_handler.rs`) and from `memory://` stores.
//! A waiting acquire does not rely on them: it also tries again after a delay (`acquire/retry.rs`).

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::slots::slot;
use crate::keyed::{Key, Keyed};
use crate::runtime::lock;

/// The subscriptions of one client. Nodes notify it, acquires subscribe to keys, and the monitor receives every change.
pub(crate) struct Watch {
    /// Held during notifications. Executors never run a task directly from its waker, so this cannot deadlock.
    signals: Mutex<Signals>,
    /// The number of waiters so far.
    waiters: AtomicU64,
    /// Ends the monitor when the last node and lease of the client are dropped.
    leases: ChangeSender,
}

/// The signal of each waiter under each of its keys. A key is removed with its last waiter.
#[derive(Default)]
struct Signals {
    by_key: Keyed<SmallVec<[Arc<Signal>; 1]>>,
}

impl Signals {
    fn of(&self, key: &str) -> impl Iterator<Item = &Signal> {
        self.by_key.get(key).into_iter().flatten().map(|signal| &**signal)
    }

    /// Returns the signals of all matching keys, in the order of subscription.
    fn of_each(&self, wanted: impl Fn(&str) -> bool) -> Vec<&Signal> {
        let keys = self.by_key.iter().filter(|(key, _)| wanted(key.text()));
        let mut all: Vec<&Signal> =
            keys.flat_map(|(_, signals)| signals).map(|signal| &**signal).collect();
        all.sort_by_key(|signal| signal.number);
        all
    }
}

/// The signal of one waiter.
#[derive(Default)]
struct Signal {
    /// Unique among the waiters of the client, and ascending.
    number: u64,
    /// Counts the changes, because a notification only reaches a task that waits at that moment.
    changes: AtomicU64,
    /// Notified at each change of the keys.
    changed: Notify,
}

impl Signal {
    /// Counts before it notifies, so that a woken task finds the new count.
    fn notify(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.changed.notify_waiters();
    }
}

impl Watch {
    /// Creates a watch without waiters. The monitor listens to `leases`.
    pub(crate) fn new(leases: Arc<Changes>) -> Self {
        Self { signals: Mutex::default(), waiters: AtomicU64::new(0), leases: ChangeSender(leases) }
    }

    /// Handles a change that a node reported. Wakes the waiters and has the affected leases checked.
    pub(crate) fn changed(&self, change: Change) {
        // Waiters come first, because the latency of a handover depends on them.
        match &change {
            Change::Key(key) => self.wake(key),
            Change::Slots(slots) => {
                let slots: HashSet<u16> = slots.iter().copied().collect();
                let moved = |key: &str| slots.contains(&slot(key));
                self.signals().of_each(moved).into_iter().for_each(Signal::notify);
            }
            // Pushes were lost while a connection began or ended.
            Change::All | Change::Flush => {
                self.signals().of_each(|_| true).into_iter().for_each(Signal::notify);
            }
        }
        self.leases.0.add(change);
    }

    pub(crate) fn changed_keys(&self, keys: &[String]) {
        for key in keys {
            self.changed(Change::Key(key.clone()));
        }
    }

    /// Returns the number of changes so far. Read it before votes are sent, and pass it to [`Self::check_new`].
    pub(crate) fn count(&self) -> u64 {
        self.leases.0.count()
    }

    /// Has a new lease on these keys checked if a change may concern it.
    ///
    /// Notifications have a separate connection, so a change may arrive before the reply that grants the lease. The
    /// monitor did not know the lease at that time.
    pub(crate) fn check_new(&self, since: u64, keys: &[String]) {
        if let Some(key) = keys.first()
            && self.leases.0.may_concern(since, keys)
        {
            self.leases.0.add(Change::Key(key.clone()));
        }
    }

    /// Wakes waiters only, for changes by this client.
    ///
    /// A server does not notify the connection that made the change. The client's own leases already know about it.
    pub(crate) fn wake(&self, key: &str) {
        self.signals().of(key).for_each(Signal::notify);
    }

    fn signals(&self) -> MutexGuard<'_, Signals> {
        lock(&self.signals)
    }

    /// Subscribes to these keys. Every later change is counted.
    pub(crate) fn subscribe(self: &Arc<Self>, keys: &Arc<[String]>) -> Subscription {
        let number = self.waiters.fetch_add(1, Ordering::Relaxed);
        // One signal for all keys, so that any change wakes the waiter once. Allocated before the mutex is locked,
        // because a thread that is suspended in an allocation would block others. Under it, only a map or a list that
        // grows allocates.
        let signal = Arc::new(Signal { number, ..Signal::default() });
        let mut signals = self.signals();
        for key in Key::each(keys) {
            signals.by_key.entry(key).or_default().push(Arc::clone(&signal));
        }
        drop(signals);
        Subscription { watch: Arc::clone(self), keys: Arc::clone(keys), signal }
    }
}

/// A subscription to some keys. It ends when dropped.
pub(crate) struct Subscription {
    watch: Arc<Watch>,
    keys: Arc<[String]>,
    signal: Arc<Signal>,
}

impl Subscription {
    /// Returns the number of changes so far. Read it before sending a command, and pass it to [`Self::changed_since`].
    pub(crate) fn mark(&self) -> u64 {
        self.signal.changes.load(Ordering::Acquire)
    }

    /// Waits until something changed after `mark`.
    ///
    /// Dropping the future loses nothing, because the changes are counted.
    pub(crate) async fn changed_since(&self, mark: u64) {
        loop {
            // Created before the check, so that a change in between is not missed (`notify_waiters` reaches existing
            // futures).
            let notified = self.signal.changed.notified();
            if self.mark() != mark {
                return;
            }
            notified.await;
        }
    }
}

/// Removes the signal when the acquire ends, however it ends.
impl Drop for Subscription {
    fn drop(&mut self) {
        let mut signals = self.watch.signals();
        for key in self.keys.iter() {
            if let Some(list) = signals.by_key.get_mut(key.as_str()) {
                list.retain(|signal| !Arc::ptr_eq(signal, &self.signal));
                if list.is_empty() {
                    signals.by_key.remove(key.as_str());
                }
            }
        }
    }
}

/// A reported change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The key was deleted or written, or its TTL changed.
    Key(String),
    /// Keys in these hash slots may have changed, because the servers of a cluster changed.
    Slots(Vec<u16>),
    /// The server deleted every key.
    Flush,
    /// Any key may have changed, because a connection began or ended.
    All,
}

/// How many of the latest changes are kept for locks that are being acquired.
const RECENT: usize = 64;

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
    /// The hashes of the latest changes.
    recent: VecDeque<u64>,
}

/// The changes that the monitor must check.
pub(crate) struct PendingChanges {
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
        lock(&self.pending)
    }

    fn add(&self, change: Change) {
        let mut pending = self.pending();
        self.remember(&mut pending.recent, &change);
        match change {
            Change::All | Change::Flush => pending.all = true,
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
            recent.truncate(RECENT - 1);
            recent.push_front(hash);
            self.count.fetch_add(1, Ordering::Release);
        };
        match change {
            Change::Key(key) => add(hash(key)),
            Change::Slots(slots) if slots.len() < RECENT => slots.iter().map(hash).for_each(add),
            Change::Slots(_) | Change::Flush => add(hash(())),
            // A vote that was sent before does not count, and one that is sent afterwards knows the server's state.
            Change::All => {}
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether a change since this number may concern these keys.
    fn may_concern(&self, since: u64, keys: &[String]) -> bool {
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
    pub(crate) fn take(&self, many_now: bool) -> PendingChanges {
        let mut pending = self.pending();
        pending.bytes = 0;
        let keys = std::mem::take(&mut pending.keys);
        let (mut slots, mut all) = (HashSet::new(), false);
        if many_now {
            slots = std::mem::take(&mut pending.slots);
            all = std::mem::take(&mut pending.all);
        }
        PendingChanges { keys, slots, all, closed: pending.closed }
    }

    /// Whether changed slots or "all keys" are still to be taken.
    pub(crate) fn many_wait(&self) -> bool {
        let pending = self.pending();
        pending.all || !pending.slots.is_empty()
    }
}

/// The sending side of the changes. Dropping it notifies the monitor, which then ends.
struct ChangeSender(Arc<Changes>);

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
        assert!(concerns(Change::Flush) && concerns(Change::Slots((0..500).collect())));
        assert!(!concerns(Change::All), "a connection began");
        assert!(!changes.may_concern(changes.count(), &ours), "all are older");
    }

    #[test]
    fn among_too_many_changes_any_lock_may_be_concerned() {
        let (changes, ours) = (Changes::default(), ["a".to_owned()]);
        for number in 0..RECENT {
            changes.add(key(&number.to_string()));
        }
        assert!(!changes.may_concern(0, &ours));
        changes.add(key("other"));
        assert!(changes.may_concern(0, &ours) && !changes.may_concern(1, &ours));
    }
}
