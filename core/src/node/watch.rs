//! Notifies waiting acquires and the monitor of leases about changed keys.
//!
//! A change is only a reason to send a command. A push may result from an extend, or another client may already have
//! the lock again. Changes without a subscriber are dropped, except for the monitor, which always listens
//! ([`super::changes`]).
//!
//! The changes come from the notifications of a server (`redis/protocol/push_handler.rs`) and from `memory://` stores.
//! A waiting acquire does not rely on them: it also tries again after a delay (`acquire/retry.rs`).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::changes::{Change, ChangeSender, Changes};
use super::keys::permits_key_of;
use super::slots::slot;
use crate::collections::{Key, Keyed, Numbered};
use crate::runtime::lock;

/// The subscriptions of one client. Nodes notify it, acquires subscribe to keys, and the monitor receives every change.
pub(crate) struct Watch {
    /// Never held during notifications, because an executor may drop a task that it is to wake, and with it a
    /// subscription.
    ///
    /// Each waiter has its signal under each of its keys. A key is removed with its last waiter.
    signals: Mutex<Signals>,
    /// The number of waiters so far.
    waiters: AtomicU64,
    /// The number of waiters now, or a larger one while their signals are added or removed.
    waiting: AtomicUsize,
    /// Ends the monitor when the last node and lease of the client are dropped.
    leases: ChangeSender,
}

type Signals = Keyed<Numbered<Arc<Signal>>>;

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

/// The signal of an entry.
fn cloned((_, signal): (u64, &Arc<Signal>)) -> Arc<Signal> {
    Arc::clone(signal)
}

impl Watch {
    /// Creates a watch without waiters. The monitor listens to `leases`.
    pub(crate) fn new(leases: Arc<Changes>) -> Self {
        let (signals, waiters, waiting) = Default::default();
        Self { signals, waiters, waiting, leases: ChangeSender(leases) }
    }

    /// Whether a caller waits for a key.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Handles a change that a node reported. Wakes the waiters and has the affected leases checked.
    pub(crate) fn changed(&self, change: Change) {
        // Waiters come first, because the latency of a handover depends on them.
        match &change {
            Change::Key(key) => self.wake(key),
            Change::Slots(slots) => {
                let slots: HashSet<u16> = slots.iter().copied().collect();
                self.wake_each(|key| slots.contains(&slot(key)));
            }
            // Pushes were lost while a connection began or ended.
            Change::All | Change::Reset => self.wake_each(|_| true),
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
            self.leases.0.check(key.clone());
        }
    }

    /// Wakes waiters only, for changes by this client.
    ///
    /// A server does not notify the connection that made the change. The client's own leases already know about it.
    pub(crate) fn wake(&self, key: &str) {
        // A caller that subscribes after this addition sends its votes after what is already sent, so it needs no
        // wake-up. A load would not order the two.
        if self.waiting.fetch_add(0, Ordering::AcqRel) == 0 {
            return;
        }
        let signals = self.signals();
        // Callers that wait for any permit of a semaphore subscribe to the common part of their keys.
        let names = [Some(key), permits_key_of(key)];
        let waiters = names.into_iter().flatten().filter_map(|name| signals.get(name));
        let woken: SmallVec<[_; 4]> = waiters.flat_map(Numbered::iter).map(cloned).collect();
        drop(signals);
        woken.iter().for_each(|signal: &Arc<Signal>| signal.notify());
    }

    /// Wakes the waiters of all matching keys, in the order of subscription.
    fn wake_each(&self, wanted: impl Fn(&str) -> bool) {
        let matching = |(key, signals)| Some(signals).filter(|_| wanted(Key::text(key)));
        let mut all: Vec<Arc<Signal>> = self
            .signals()
            .iter()
            .filter_map(matching)
            .flat_map(Numbered::iter)
            .map(cloned)
            .collect();
        all.sort_by_key(|signal| signal.number);
        all.iter().for_each(|signal| signal.notify());
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
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let mut signals = self.signals();
        for key in Key::each(keys) {
            signals.entry(key).or_default().insert(number, Arc::clone(&signal));
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
            if let Some(list) = signals.get_mut(key.as_str()) {
                list.remove(self.signal.number);
                if list.is_empty() {
                    signals.remove(key.as_str());
                }
            }
        }
        drop(signals);
        self.watch.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake, Waker};

    use super::*;

    /// Counts the wake-ups during which nothing is locked.
    struct Executor(Arc<Watch>, AtomicUsize);

    impl Wake for Executor {
        fn wake(self: Arc<Self>) {
            if self.0.signals.try_lock().is_ok() {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn check_of_a_new_lease_causes_no_further_check() {
        let watch = Watch::new(Arc::default());
        let since = watch.count();
        watch.changed(Change::Reset);
        let later = watch.count();
        for number in 0..100 {
            watch.check_new(since, &[number.to_string()]);
        }
        assert_eq!(watch.count(), later);
    }

    #[test]
    fn change_of_a_permit_wakes_waiters_for_any_permit() {
        let watch = Arc::new(Watch::new(Arc::default()));
        let subscription = watch.subscribe(&["{lock:pool}#".to_owned()].into());
        for (key, changes) in
            [("{lock:pool}#12", 1), ("{lock:pool}", 1), ("lock:pool", 1), ("{lock:pool}#0", 2)]
        {
            watch.changed(Change::Key(key.to_owned()));
            assert_eq!(subscription.mark(), changes, "{key}");
        }
    }

    /// An executor may drop a task instead of running it, which ends the subscription of its acquire.
    #[test]
    fn waiters_are_woken_without_the_mutex() {
        let job = "job".to_owned();
        for change in [Change::Slots(vec![slot(&job)]), Change::Key(job.clone()), Change::All] {
            let watch = Arc::new(Watch::new(Arc::default()));
            let subscription = watch.subscribe(&[job.clone()].into());
            let executor = Arc::new(Executor(Arc::clone(&watch), AtomicUsize::new(0)));
            let mut waiter = std::pin::pin!(subscription.changed_since(subscription.mark()));
            let waker = Waker::from(Arc::clone(&executor));
            assert!(waiter.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            watch.changed(change);
            assert_eq!(executor.1.load(Ordering::Relaxed), 1);
        }
    }
}
