//! Callers of one process that want the same keys, in order of arrival. Only a caller that has its turn sends requests
//! to the nodes.
//!
//! A caller has its turn when no earlier caller holds it back in any of its lines. During its first request, it holds
//! back later callers in all of its lines. After a refusal, it does so only in the lines of the keys that others
//! have. It may wait forever for those, and callers that want only the other keys must not wait with it. A caller
//! that waits for its turn does not hold back any other.
//!
//! The queue knows keys and callers, but no nodes. Having a turn does not mean that the lock is free. One mutex
//! protects all lines of a client and is locked only briefly. No waker is called under it, because a waker may run
//! arbitrary code.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use super::refusal::Refusal;
use crate::clock::Instant;
use crate::collections::{Key, Keyed, Numbered};
use crate::node::Taken;
use crate::runtime::{Made, lock};

/// The lines of one client's callers, one for each key. In a forked child, another thread may have locked them forever.
#[derive(Default)]
pub(crate) struct Queue(Made<Mutex<Lines>>);

impl Queue {
    /// The number of callers, with or without their turn.
    pub(crate) fn callers(&self) -> usize {
        let Some(lines) = self.lines() else { return 0 };
        let waiters = lines.by_key.values().flat_map(|line| line.waiters.iter()).map(|(id, ())| id);
        waiters.collect::<HashSet<_>>().len()
    }
}

#[derive(Default)]
struct Lines {
    /// The last caller's number. Numbers are unique, and an earlier caller has a smaller one.
    last: u64,
    /// A line is removed with its last caller, so unused names take no memory.
    by_key: Keyed<Line>,
    waiting: HashMap<NonZeroU64, Waiting>,
}

/// The line of one key. Most lines have a single caller.
#[derive(Default)]
struct Line {
    /// In order of arrival.
    waiters: Numbered<()>,
    /// The first caller that holds back later ones in this line.
    holder: Option<NonZeroU64>,
    /// `None` if no caller waits for its turn, which takes less memory.
    crowd: Option<Box<Crowd>>,
    /// The result of the last conclusive round of its callers.
    availability: Option<Availability>,
}

/// The result of the last conclusive round for a key. Callers of this process that want the same keys share it.
pub(super) struct Availability {
    pub(super) at: Instant,
    /// `None` if a quorum replied.
    pub(super) no_quorum: Option<NoQuorum>,
}

/// A period in which no quorum of nodes replied.
#[derive(Clone)]
pub(super) struct NoQuorum {
    pub(super) since: Instant,
    /// Why its last round had no quorum.
    pub(super) why: Arc<Refusal>,
}

/// The callers in a line of several.
#[derive(Default)]
struct Crowd {
    /// The callers that hold back later ones, except for the first of them. None of them waits for its turn.
    holders: BTreeSet<NonZeroU64>,
    /// The callers that wait for their turn because one of the holders came earlier. Each is in one line only.
    held_back: BTreeSet<NonZeroU64>,
}

impl Line {
    /// Whether a holder came before this caller.
    fn holds_back(&self, id: NonZeroU64) -> bool {
        self.holder.is_some_and(|holder| holder < id)
    }

    /// Sets whether the caller holds back later ones.
    fn set_holder(&mut self, id: NonZeroU64, holds: bool) {
        if self.holder == Some(id) {
            if !holds {
                self.holder = self.crowd.as_mut().and_then(|crowd| crowd.holders.pop_first());
            }
        } else if !holds {
            if let Some(crowd) = &mut self.crowd {
                crowd.holders.remove(&id);
            }
        } else if self.holder.is_none() {
            self.holder = Some(id);
        } else if let Some(first) = self.holder {
            self.holder = Some(first.min(id));
            self.crowd.get_or_insert_default().holders.insert(first.max(id));
        }
    }
}

/// A caller that waits for its turn.
struct Waiting {
    keys: Arc<[String]>,
    /// The position of the key in whose line it is held back.
    line: usize,
    /// The keys that other clients held in its last round.
    taken: Taken,
    /// `None` until the first poll, which checks for the turn without being woken.
    waker: Option<Waker>,
}

/// Whether a caller with its turn holds others back in the line of its key at this position: if other clients held the
/// key, or if they held none. If the nodes did not refuse, one caller at a time tries again.
fn holds_at(taken: Taken, at: usize) -> bool {
    taken == Taken::default() || taken.has(at)
}

/// An entry in the line of each key. Dropping the ticket gives the next caller its turn.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    keys: Arc<[String]>,
    id: NonZeroU64,
    /// When the round began that granted the lease.
    granted: Option<Instant>,
}

impl Queue {
    /// Joins the lines of all keys in one step, so that two callers can never wait for each other.
    pub(crate) fn join(self: &Arc<Self>, keys: &Arc<[String]>) -> Ticket {
        let mut id = NonZeroU64::MIN;
        if let Some(mut lines) = self.lines() {
            id = id.saturating_add(lines.last);
            lines.last = id.get();
            for key in Key::each(keys) {
                lines.by_key.entry(key).or_default().waiters.insert(id.get(), ());
            }
            lines.start_or_wait(id, keys, Taken::default());
        }
        Ticket { queue: Arc::clone(self), keys: Arc::clone(keys), id, granted: None }
    }

    /// Locks all lines. Returns `None` in a forked child, where a call of the parent may continue. A panic under the
    /// lock leaves the lines consistent, so poisoning is ignored.
    fn lines(&self) -> Option<MutexGuard<'_, Lines>> {
        self.0.ours().map(lock)
    }
}

impl Lines {
    /// The position of a key in whose line an earlier caller holds this caller back.
    fn held_back(&self, id: NonZeroU64, keys: &[String]) -> Option<usize> {
        let held =
            |key: &String| self.by_key.get(key.as_str()).is_some_and(|line| line.holds_back(id));
        keys.iter().position(held)
    }

    /// Sets in which lines the caller holds others back: those for which `whether` returns true.
    fn hold(&mut self, id: NonZeroU64, keys: &[String], whether: impl Fn(usize) -> bool) {
        for (at, key) in keys.iter().enumerate() {
            if let Some(line) = self.by_key.get_mut(key.as_str()) {
                line.set_holder(id, whether(at));
            }
        }
    }

    /// Gives the caller its turn, or makes it wait. A waiting caller holds back no other, because it may wait for as
    /// long as another caller's lock lasts.
    fn start_or_wait(&mut self, id: NonZeroU64, keys: &Arc<[String]>, taken: Taken) {
        if let Some(line) = self.held_back(id, keys) {
            self.hold(id, keys, |_| false);
            self.waiting.insert(id, Waiting { keys: Arc::clone(keys), line, taken, waker: None });
            self.wait_in(id, &keys[line]);
        } else {
            self.hold(id, keys, |at| holds_at(taken, at));
        }
    }

    fn wait_in(&mut self, id: NonZeroU64, key: &str) {
        if let Some(line) = self.by_key.get_mut(key) {
            line.crowd.get_or_insert_default().held_back.insert(id);
        }
    }

    /// Gives each caller that waits in these lines its turn if no earlier caller holds it back. Returns the wakers to
    /// call.
    fn admit(&mut self, keys: &[String]) -> Vec<Waker> {
        let mut woken = Vec::new();
        for key in keys {
            // Up to the first caller that holds back the rest of the line.
            while let Some(line) = self.by_key.get_mut(key.as_str())
                && let Some(id) =
                    line.crowd.as_ref().and_then(|crowd| crowd.held_back.first().copied())
                && !line.holds_back(id)
                && let Some(crowd) = &mut line.crowd
            {
                crowd.held_back.remove(&id);
                let Some(Waiting { keys, taken, .. }) = self.waiting.get(&id) else { continue };
                let (keys, taken) = (Arc::clone(keys), *taken);
                // In another line it may still be held back. It waits there from now on.
                if let Some(line) = self.held_back(id, &keys) {
                    self.waiting.entry(id).and_modify(|waiting| waiting.line = line);
                    self.wait_in(id, &keys[line]);
                } else {
                    self.hold(id, &keys, |at| holds_at(taken, at));
                    woken.extend(self.waiting.remove(&id).and_then(|waiting| waiting.waker));
                }
            }
        }
        woken
    }
}

impl Ticket {
    pub(crate) fn has_turn(&self) -> bool {
        self.queue.lines().is_none_or(|lines| !lines.waiting.contains_key(&self.id))
    }

    pub(crate) async fn turn(&self) {
        // The check and the registration use one lock, so that no wake-up is missed in between.
        poll_fn(|cx| {
            // Wakers are cloned and dropped without the mutex, because that may run code of the program.
            let mut waker = Some(cx.waker().clone());
            let mut lines = self.queue.lines();
            let waiting = lines.as_mut().and_then(|lines| lines.waiting.get_mut(&self.id));
            let waits = waiting.map(|waiting| std::mem::swap(&mut waiting.waker, &mut waker));
            drop(lines);
            if waits.is_some() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Records that the nodes refused these keys. Callers that want only the other keys get their turn. `taken` is
    /// empty if the round ended without a refusal.
    pub(crate) fn refused(&self, taken: Taken) {
        let Some(mut lines) = self.queue.lines() else { return };
        lines.hold(self.id, &self.keys, |at| taken.has(at));
        // If other clients hold all of the keys, nothing changes for later callers.
        let woken = if taken.all(self.keys.len()) { Vec::new() } else { lines.admit(&self.keys) };
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Requests another turn at the old position. `taken` are the keys that other clients held.
    pub(crate) fn requeue(&self, taken: Taken) {
        let Some(mut lines) = self.queue.lines() else { return };
        lines.start_or_wait(self.id, &self.keys, taken);
        let woken = lines.admit(&self.keys);
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Leaves the queue with a lease that a quorum granted in a round that began at `began`.
    pub(super) fn leave(mut self, began: Instant) {
        self.granted = Some(began);
    }

    pub(super) fn quorum_replied(&self, at: Instant) {
        self.update_availability(|_| Availability { at, no_quorum: None });
    }

    /// Records that no quorum has replied from `began` until `at`. It began with this round, or with an inconclusive
    /// one before. This continues the period of an earlier record, or begins one, but not before a quorum last replied.
    pub(super) fn quorum_missing(&self, began: Instant, at: Instant, why: &Arc<Refusal>) {
        self.update_availability(|earlier| {
            let since = match earlier {
                Some(Availability { no_quorum: Some(period), .. }) => period.since,
                Some(Availability { at, no_quorum: None }) => began.max(*at),
                None => began,
            };
            Availability { at, no_quorum: Some(NoQuorum { since, why: Arc::clone(why) }) }
        });
    }

    fn update_availability(&self, change: impl Fn(Option<&Availability>) -> Availability) {
        let Some(mut lines) = self.queue.lines() else { return };
        for key in self.keys.iter() {
            if let Some(line) = lines.by_key.get_mut(key.as_str()) {
                line.availability = Some(change(line.availability.as_ref()));
            }
        }
    }

    /// The current period without a quorum, according to the last conclusive round for one of the keys.
    pub(super) fn no_quorum(&self) -> Option<NoQuorum> {
        let lines = self.queue.lines()?;
        let known = |key: &String| lines.by_key.get(key.as_str())?.availability.as_ref();
        let last = self.keys.iter().filter_map(known).max_by_key(|known| known.at);
        last.and_then(|known| known.no_quorum.clone())
    }

    /// Whether no earlier caller is left in any of its lines.
    pub(crate) fn is_first(&self) -> bool {
        let Some(lines) = self.queue.lines() else { return true };
        let front =
            |key: &String| lines.by_key.get(key.as_str()).and_then(|line| line.waiters.first());
        self.keys.iter().filter_map(front).all(|id| id == self.id.get())
    }
}

/// Runs at the end of every acquire: granted, failed or dropped.
impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(mut lines) = self.queue.lines() else { return };
        let waited = if lines.waiting.is_empty() { None } else { lines.waiting.remove(&self.id) };
        for (at, key) in self.keys.iter().enumerate() {
            let Some(line) = lines.by_key.get_mut(key.as_str()) else { continue };
            line.waiters.remove(self.id.get());
            line.set_holder(self.id, false);
            if waited.as_ref().is_some_and(|waited| waited.line == at)
                && let Some(crowd) = &mut line.crowd
            {
                crowd.held_back.remove(&self.id);
            }
            if line.waiters.is_empty() {
                lines.by_key.remove(key.as_str());
            } else if let Some(at) = self.granted {
                line.availability = Some(Availability { at, no_quorum: None });
            }
        }
        let woken = lines.admit(&self.keys);
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
        drop(waited);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    /// A task that owns another acquire of the client, and whose last reference may be its waker.
    struct Task(Arc<Queue>, Arc<AtomicUsize>);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Task {
        fn drop(&mut self) {
            if self.0.0.try_lock().is_ok() {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn wakers_are_dropped_without_the_mutex() {
        let (queue, keys) = (Arc::new(Queue::default()), Arc::from(["job".to_owned()]));
        let _first = queue.join(&keys);
        let dropped = Arc::default();
        let waits = |ticket: &Ticket| {
            let waker = Waker::from(Arc::new(Task(Arc::clone(&queue), Arc::clone(&dropped))));
            let mut turn = std::pin::pin!(ticket.turn());
            assert!(turn.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        };
        let second = queue.join(&keys);
        waits(&second);
        // The next poll replaces the waker, and the end of the acquire drops it.
        waits(&second);
        drop(second);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }

    /// A thread of the parent locked the lines during the fork. That thread does not exist in the child.
    #[test]
    fn forked_child_does_not_wait_for_a_thread_of_its_parent() {
        let of_parent = Queue(Made::of_parent(Mutex::default()));
        let queue = Arc::new(of_parent);
        let locked = queue.0.lock().unwrap();
        let ticket = queue.join(&Arc::from(["job".to_owned()]));
        ticket.requeue(Taken::default());
        assert!(ticket.has_turn() && ticket.is_first() && ticket.no_quorum().is_none());
        drop(ticket);
        assert_eq!(queue.callers(), 0);
        drop(locked);
    }
}
