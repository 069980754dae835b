//! The leases of one client, their keys, and the new leases that the monitor has not seen yet.
//!
//! The registry stores keys, numbers and weak references of leases and never calls them. No other lock is taken while
//! one of its locks is held, except that of the changes. A thread may be suspended while it holds one, so the monitor
//! does not wait for it, and neither does the drop of the last handle of an unreleased lease. A release waits.
//!
//! The new leases have a separate lock, which no search takes. A thread that lists leases hides no new one from the
//! monitor, wherever it is suspended.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Instant, NEVER};
use crate::collections::{Key, Keyed, Numbered};
use crate::runtime::{lock, try_lock};

/// How often the monitor looks at new leases. It never sees one that ended earlier.
///
/// Most leases are short, and looking at each would wake the monitor each time.
const GRACE: Duration = Duration::from_millis(100);
/// How many leases without a handle the list of new ones may hold before they are removed. Their memory stays until
/// then.
const MAX_UNSEEN: usize = 64;
/// How many leases must have existed before the monitor is notified that most of them have ended.
const MANY_LEASES: usize = 256;

/// Every lease that is not released yet and has a handle.
pub(crate) struct Registry<L> {
    entries: Mutex<Entries<L>>,
    new: Mutex<New<L>>,
    /// The number of leases so far.
    count: AtomicU64,
    /// Whether a dropped lease is still in the list, because another thread was inside.
    dropped: AtomicBool,
    /// Notified when a new lease cannot wait for the monitor's next look.
    early: Notify,
}

/// The new leases, whether most leases have ended, and when the monitor looks again.
type Plan<L> = (Vec<Arc<L>>, bool, Instant);

pub(super) struct Entries<L> {
    /// The number of leases.
    live: usize,
    /// The largest number of leases since the monitor removed ended ones.
    peak: usize,
    /// The leases on each key, by their numbers. There are several after an attach. Weak references: a lease without a
    /// handle ends and is not renewed.
    by_key: Keyed<Numbered<Weak<L>>>,
}

/// The leases that the monitor has not seen yet.
struct New<L> {
    /// Each with the time of its first event.
    leases: Vec<(Instant, Weak<L>)>,
    /// When the monitor looks next without a notification.
    planned: Instant,
    /// The number beyond which those without a handle are removed.
    limit: usize,
}

impl<L> Registry<L> {
    pub(crate) fn new() -> Self {
        let entries = Entries { live: 0, peak: 0, by_key: Keyed::default() };
        let new = New { leases: Vec::new(), planned: NEVER, limit: MAX_UNSEEN };
        let (count, dropped) = Default::default();
        let (entries, new) = (Mutex::new(entries), Mutex::new(new));
        Self { entries, new, count, dropped, early: Notify::new() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries<L>> {
        lock(&self.entries)
    }

    /// A number that no other lease of the client has.
    pub(crate) fn new_id(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a lease on these keys. Wakes the monitor if the lease's `first` event is earlier than the monitor's next
    /// look.
    pub(crate) fn add(&self, id: u64, keys: &Arc<[String]>, lease: &Arc<L>, first: Instant) {
        let mut entries = self.entries();
        for key in Key::each(keys) {
            entries.by_key.entry(key).or_default().insert(id, Arc::downgrade(lease));
        }
        entries.live += 1;
        entries.peak = entries.peak.max(entries.live);
        drop(entries);
        let mut new = lock(&self.new);
        // The monitor never sees very short leases. They must not pile up.
        if new.leases.len() > new.limit {
            new.leases.retain(|(_, lease)| lease.strong_count() > 0);
            new.limit = MAX_UNSEEN + 2 * new.leases.len();
        }
        new.leases.push((first, Arc::downgrade(lease)));
        // Not for every lease: for most of them the wake-up would be a wasted system call.
        let early = first < new.planned;
        drop(new);
        if early {
            self.early.notify_one();
        }
    }

    /// Removes a lease, and returns the others on its keys. Does not remove one that is already removed.
    pub(crate) fn remove(&self, id: u64, keys: &[String]) -> Vec<Arc<L>> {
        let mut entries = self.entries();
        let had_ended = entries.have_most_ended();
        entries.remove(id, keys);
        let must_tell = !had_ended && entries.have_most_ended();
        let others = keys.iter().flat_map(|key| entries.on(key)).collect();
        drop(entries);
        // Once, because the monitor would otherwise keep their memory until its next event.
        if must_tell {
            self.early.notify_one();
        }
        others
    }

    /// Removes a lease that is being dropped. If another thread is inside, the monitor removes it later.
    pub(super) fn remove_dropped(&self, id: u64, keys: &[String]) {
        match try_lock(&self.entries) {
            Some(mut entries) => entries.remove(id, keys),
            None => self.dropped.store(true, Ordering::Release),
        }
    }

    /// The leases that are not released yet, in order of creation.
    ///
    /// Some may have ended, so callers must check each.
    pub(crate) fn leases(&self) -> Vec<Arc<L>> {
        self.entries().all()
    }

    /// This client's leases on a key.
    pub(crate) fn on(&self, key: &str) -> Vec<Arc<L>> {
        self.entries().on(key).collect()
    }

    /// The positions of the keys that leases of this client have.
    pub(crate) fn held(&self, keys: &[String]) -> impl Iterator<Item = usize> {
        let entries = self.entries();
        (0..keys.len()).filter(move |at| entries.by_key.contains_key(keys[*at].as_str()))
    }

    /// Looks for leases, or returns `None` if another thread is inside.
    pub(super) fn try_find<T>(&self, find: impl FnOnce(&Entries<L>) -> T) -> Option<T> {
        try_lock(&self.entries).map(|entries| find(&entries))
    }

    /// Returns the new leases, whether most leases have ended, and when the monitor looks again: at its next event, at
    /// the first one of a new lease, or for further leases. Returns `None` if another thread is inside.
    pub(super) fn try_plan(&self, now: Instant, next: Instant) -> Option<Plan<L>> {
        let mut list = try_lock(&self.new)?;
        let new = std::mem::take(&mut list.leases);
        list.limit = MAX_UNSEEN;
        // While leases come and go, the monitor looks periodically, so that new leases need not wake it.
        let soon = if new.is_empty() { NEVER } else { now + GRACE };
        let planned = new.iter().map(|(first, _)| *first).fold(next.min(soon), Instant::min);
        list.planned = planned;
        drop(list);
        let mut most_ended = false;
        // Left for the next look if another thread is inside. It may be suspended there.
        if let Some(mut entries) = try_lock(&self.entries) {
            if self.dropped.swap(false, Ordering::Acquire) {
                entries.remove_dropped();
            }
            most_ended = entries.have_most_ended();
            if most_ended {
                entries.peak = entries.live;
            }
        }
        let leases = new.iter().filter_map(|(_, lease)| lease.upgrade()).collect();
        Some((leases, most_ended, planned))
    }

    /// Waits until a new lease cannot wait for the monitor's next look.
    pub(crate) async fn early(&self) {
        self.early.notified().await;
    }
}

impl<L> Entries<L> {
    /// All leases in order of creation.
    pub(super) fn all(&self) -> Vec<Arc<L>> {
        let mut leases: Vec<_> = self.by_key.values().flat_map(Numbered::iter).collect();
        leases.sort_unstable_by_key(|(id, _)| *id);
        // A lease with several keys.
        leases.dedup_by_key(|(id, _)| *id);
        leases.into_iter().filter_map(|(_, lease)| lease.upgrade()).collect()
    }

    /// The leases on a key.
    pub(super) fn on(&self, key: &str) -> impl Iterator<Item = Arc<L>> {
        let leases = self.by_key.get(key).into_iter().flat_map(Numbered::iter);
        leases.filter_map(|(_, lease)| lease.upgrade())
    }

    /// Whether most leases have ended, so that the monitor can free much memory.
    fn have_most_ended(&self) -> bool {
        self.peak > MANY_LEASES && self.live < self.peak / 2
    }

    fn remove(&mut self, id: u64, keys: &[String]) {
        let mut was_there = false;
        for key in keys {
            if let Some(leases) = self.by_key.get_mut(key.as_str()) {
                was_there |= leases.remove(id).is_some();
                if leases.is_empty() {
                    self.by_key.remove(key.as_str());
                }
            }
        }
        self.live = self.live.saturating_sub(usize::from(was_there));
    }

    /// Removes every lease without a handle.
    fn remove_dropped(&mut self) {
        self.by_key.retain(|_, leases| {
            leases.retain(|lease| lease.strong_count() > 0);
            !leases.is_empty()
        });
        let ids = self.by_key.values().flat_map(Numbered::iter).map(|(id, _)| id);
        self.live = ids.collect::<HashSet<_>>().len();
    }
}

#[cfg(test)]
mod tests {
    use std::thread::yield_now;

    use futures_util::FutureExt;

    use super::super::status::Status;
    use super::*;
    use crate::client::Redlock;
    use crate::error::LossReason;
    use crate::lease::LeaseHandle;
    use crate::node::{advance_memory, fail_memory};

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            yield_now();
        }
    }

    #[test]
    fn suspended_thread_stops_no_renewal_and_hides_no_loss() {
        let client = Redlock::builder(["memory://registry"]).build().unwrap();
        let leases = ["renewed", "deleted"].map(|name| client.lock(name).acquire_blocking());
        let [renewed, deleted] = leases.map(|lease| lease.unwrap().into_handle());
        // The monitor has seen both.
        until(|| lock(&renewed.0.own.leases.registry.new).leases.is_empty());
        let lost = |lease: &LeaseHandle| match lease.0.peek().0 {
            Status::Lost(reason, _) => Some(reason),
            _ => None,
        };
        let suspended = renewed.0.own.leases.registry.entries();
        let before = renewed.0.peek().1;
        advance_memory("registry", renewed.ttl() / 2);
        until(|| renewed.0.peek().1 > before);
        // A reported change waits until the registry is free.
        let other = Redlock::builder(["memory://registry"]).build().unwrap();
        assert!(other.force_release("deleted").now_or_never().unwrap().unwrap());
        drop(suspended);
        until(|| lost(&deleted).is_some());
        assert_eq!(lost(&deleted), Some(LossReason::Missing));
        let suspended = renewed.0.own.leases.registry.entries();
        fail_memory("registry", true);
        advance_memory("registry", renewed.ttl() * 2);
        until(|| lost(&renewed).is_some());
        assert_eq!(lost(&renewed), Some(LossReason::Expired));
        drop(suspended);
    }

    #[test]
    fn lease_dropped_while_another_thread_is_inside_is_removed_later() {
        let registry = Registry::new();
        let (keys, lease) = (Arc::from(["key".to_owned()]), Arc::new(()));
        registry.add(registry.new_id(), &keys, &lease, NEVER);
        registry.try_plan(NEVER, NEVER);
        let inside = registry.entries();
        drop(lease);
        registry.remove_dropped(0, &keys);
        assert!(registry.try_plan(NEVER, NEVER).is_some() && registry.try_find(|_| ()).is_none());
        drop(inside);
        registry.try_plan(NEVER, NEVER).unwrap();
        assert!(registry.entries().by_key.is_empty());
    }

    /// A thread of low priority lists the leases again and again, and is suspended there.
    #[test]
    fn suspended_search_hides_no_new_lease_from_the_monitor() {
        let registry = Registry::new();
        let (keys, lease) = (Arc::from(["key".to_owned()]), Arc::new(()));
        registry.add(registry.new_id(), &keys, &lease, NEVER);
        let searching = registry.entries();
        let (new, ..) = registry.try_plan(NEVER, NEVER).expect("no search is inside");
        assert_eq!(new.len(), 1);
        drop(searching);
    }

    /// Thousands of handles may attach to one key.
    #[test]
    fn new_leases_without_a_handle_are_removed() {
        let registry = Registry::new();
        for name in 0..10_000 {
            let (keys, lease) = (Arc::from([name.to_string()]), Arc::new(()));
            let id = registry.new_id();
            registry.add(id, &keys, &lease, NEVER);
            registry.remove(id, &keys);
        }
        assert!(lock(&registry.new).leases.len() <= MAX_UNSEEN + 1);
        assert!(registry.entries().by_key.is_empty());
    }
}
