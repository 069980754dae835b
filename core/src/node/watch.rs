//! Who wants to know when a key changes: waiters, and the holders of leases.
//!
//! A change is a reason to ask, never an answer: a push may be for an extend, or for a lock that somebody else
//! already has again. What is told to nobody is not kept, but for the monitor, which listens always
//! ([`super::changes`]).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::changes::{Change, Changes, Teller};
use super::slots::slot;
use crate::keyed::{Key, Keyed};

/// One client's interests. Nodes ring it, waiters subscribe, the monitor of leases listens to all of it.
pub(crate) struct Watch {
    /// Held while signals are rung: a waker must not run its task at once, which no executor does.
    signals: Mutex<Signals>,
    /// Its end, with the last node and lease of the client, is what ends the monitor.
    leases: Teller,
}

/// Each waiter's signal, under each of its keys; a key goes with its last waiter.
#[derive(Default)]
struct Signals {
    by_key: Keyed<SmallVec<[Arc<Signal>; 1]>>,
    /// How many waiters there were.
    next: u64,
}

impl Signals {
    /// Those of one key's waiters.
    fn of(&self, key: &str) -> impl Iterator<Item = &Signal> {
        self.by_key.get(key).into_iter().flatten().map(|signal| &**signal)
    }

    /// Those of the keys that are wanted, in the order in which they came.
    fn of_each(&self, wanted: impl Fn(&str) -> bool) -> Vec<&Signal> {
        let keys = self.by_key.iter().filter(|(key, _)| wanted(key.text()));
        let mut all: Vec<&Signal> =
            keys.flat_map(|(_, signals)| signals).map(|signal| &**signal).collect();
        all.sort_by_key(|signal| signal.number);
        all
    }
}

/// One waiter's.
#[derive(Default)]
struct Signal {
    /// No other waiter of the client has it.
    number: u64,
    /// Counts, as a bell alone is heard only by who listens at that moment.
    changes: AtomicU64,
    /// Rung at each change of the keys.
    bell: Notify,
}

impl Signal {
    /// Counted before it is rung: who is woken finds the count changed.
    fn ring(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.bell.notify_waiters();
    }
}

impl Watch {
    /// Nobody waits yet; `leases` is where the monitor listens.
    pub(crate) fn new(leases: Arc<Changes>) -> Self {
        Self { signals: Mutex::default(), leases: Teller(leases) }
    }

    /// A node's word: wakes waiters, and has the leases concerned checked.
    pub(crate) fn changed(&self, change: Change) {
        // Waiters first: for them each microsecond of a handover counts.
        match &change {
            Change::Key(key) => self.wake(key),
            Change::Slots(slots) => {
                let slots: HashSet<u16> = slots.iter().copied().collect();
                let moved = |key: &str| slots.contains(&slot(key));
                self.signals().of_each(moved).into_iter().for_each(Signal::ring);
            }
            // A flush, or a connection that came or went: what was pushed meanwhile went nowhere.
            Change::All => self.signals().of_each(|_| true).into_iter().for_each(Signal::ring),
        }
        self.leases.0.add(change);
    }

    /// [`Watch::changed`] for several keys.
    pub(crate) fn changed_keys(&self, keys: &[String]) {
        for key in keys {
            self.changed(Change::Key(key.clone()));
        }
    }

    /// Wakes waiters only: for changes that this client made itself.
    ///
    /// A server tells nothing to the connection that made the change; our leases know of it already.
    pub(crate) fn wake(&self, key: &str) {
        self.signals().of(key).for_each(Signal::ring);
    }

    fn signals(&self) -> MutexGuard<'_, Signals> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An interest in these keys, which notes every change from now on.
    pub(crate) fn subscribe(self: &Arc<Self>, keys: &Arc<[String]>) -> Subscription {
        let mut signals = self.signals();
        signals.next += 1;
        // One for all keys: whichever changes wakes the waiter once.
        let signal = Arc::new(Signal { number: signals.next, ..Signal::default() });
        for key in Key::each(keys) {
            signals.by_key.entry(key).or_default().push(Arc::clone(&signal));
        }
        drop(signals);
        Subscription { watch: Arc::clone(self), keys: Arc::clone(keys), signal }
    }
}

/// An interest in some keys, for as long as it lives.
pub(crate) struct Subscription {
    watch: Arc<Watch>,
    keys: Arc<[String]>,
    signal: Arc<Signal>,
}

impl Subscription {
    /// Changes so far: read it before asking the nodes, and hand it to [`Self::changed_since`].
    pub(crate) fn mark(&self) -> u64 {
        self.signal.changes.load(Ordering::Acquire)
    }

    /// Ends once something changed after `mark`.
    ///
    /// Dropping the future loses nothing: the count stays.
    pub(crate) async fn changed_since(&self, mark: u64) {
        loop {
            // Made before the look: a change in between is heard (`notify_waiters` reaches those that exist).
            let bell = self.signal.bell.notified();
            if self.mark() != mark {
                return;
            }
            bell.await;
        }
    }
}

/// An acquire that ends, in whatever way, leaves no signal behind.
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
