//! Callers of one process that want the same keys, in order of arrival. Only a caller that has its turn sends requests
//! to the nodes.
//!
//! A caller has its turn when no earlier caller holds it back in any of its lines. During its first request, it holds
//! back later callers in all of its lines. After a refusal, it does so only in the lines of the keys that others
//! have. It may wait forever for those, and callers that want only the other keys must not wait with it. A caller
//! that waits for its turn does not hold back any other.
//!
//! Callers of a semaphore share its line: as many have their turn as there are permits, in order of arrival. Once
//! refused, a caller has the whole line and tries for all behind it.
//!
//! The queue knows keys and callers, but no nodes. Having a turn does not mean that the lock is free. One mutex
//! protects all lines of a client and is locked only briefly. No waker is called under it, because a waker may run
//! arbitrary code.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use super::line::{Availability, Line, NoQuorum, WHOLE_LINE, part_at};
use super::refusal::Refusal;
use crate::clock::Instant;
use crate::collections::{Key, Keyed};
use crate::node::Places;
use crate::primitive::Share;
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

/// A caller that waits for its turn.
struct Waiting {
    keys: Arc<[String]>,
    /// The position of the key in whose line it is held back.
    line: usize,
    share: Share,
    /// The keys that other clients held in its last round. `None` if it has not sent a request yet.
    taken: Option<Places>,
    /// `None` until the first poll, which checks for the turn without being woken.
    waker: Option<Waker>,
}

/// An entry in the line of each key. Dropping the ticket gives the next caller its turn.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    keys: Arc<[String]>,
    share: Share,
    id: NonZeroU64,
    /// Whether it is known to have its turn, which only its own refusal ends. Most callers have it from the beginning,
    /// and then need not lock the lines to find out.
    has_turn: AtomicBool,
    /// When the round began that granted the lease.
    granted: Option<Instant>,
}

impl Queue {
    /// Joins the lines of all keys in one step, so that two callers can never wait for each other.
    pub(crate) fn join(self: &Arc<Self>, keys: &Arc<[String]>, share: Share) -> Ticket {
        let (mut id, mut has_turn) = (NonZeroU64::MIN, true);
        if let Some(mut lines) = self.lines() {
            id = id.saturating_add(lines.last);
            lines.last = id.get();
            for key in Key::each(keys) {
                lines.by_key.entry(key).or_default().waiters.insert(id.get(), ());
            }
            has_turn = lines.start_or_wait(id, keys, share, None);
        }
        let (queue, keys, has_turn) = (Arc::clone(self), Arc::clone(keys), has_turn.into());
        Ticket { queue, keys, share, id, has_turn, granted: None }
    }

    /// Locks all lines. Returns `None` in a forked child, where a call of the parent may continue. A panic under the
    /// lock leaves the lines consistent, so poisoning is ignored.
    fn lines(&self) -> Option<MutexGuard<'_, Lines>> {
        self.0.ours().map(lock)
    }
}

impl Lines {
    /// The position of a key in whose line earlier callers hold this caller back.
    fn held_back(&self, id: NonZeroU64, keys: &[String], share: Share) -> Option<usize> {
        let line = |key: &String| self.by_key.get(key.as_str());
        keys.iter().position(|key| line(key).is_some_and(|line| line.holds_back(id, share)))
    }

    /// Sets how much of each line the caller takes from later ones.
    fn set_parts(&mut self, id: NonZeroU64, keys: &[String], part: impl Fn(usize) -> u32) {
        for (at, key) in keys.iter().enumerate() {
            if let Some(line) = self.by_key.get_mut(key.as_str()) {
                line.set_part(id, part(at));
            }
        }
    }

    /// Gives the caller its turn, or makes it wait. Returns whether it has its turn. A waiting caller holds back no
    /// other, because it may wait for as long as another caller's lock lasts.
    fn start_or_wait(
        &mut self,
        id: NonZeroU64,
        keys: &Arc<[String]>,
        share: Share,
        taken: Option<Places>,
    ) -> bool {
        let line = self.held_back(id, keys, share);
        if let Some(line) = line {
            self.set_parts(id, keys, |_| 0);
            let keys = Arc::clone(keys);
            self.wait_in(id, &keys[line]);
            self.waiting.insert(id, Waiting { keys, line, share, taken, waker: None });
        } else {
            self.set_parts(id, keys, |at| part_at(taken.as_ref(), share, at));
        }
        line.is_none()
    }

    fn wait_in(&mut self, id: NonZeroU64, key: &str) {
        if let Some(line) = self.by_key.get_mut(key) {
            line.crowd.get_or_insert_default().held_back.insert(id);
        }
    }

    /// The first caller that waits in the line of this key, if earlier callers leave room for it there.
    fn first_with_room(&self, key: &str) -> Option<NonZeroU64> {
        let line = self.by_key.get(key)?;
        let id = *line.crowd.as_ref()?.held_back.first()?;
        let share = self.waiting.get(&id).map_or(Share::WHOLE, |waiting| waiting.share);
        (!line.holds_back(id, share)).then_some(id)
    }

    /// Gives each caller that waits in these lines its turn if no earlier caller holds it back. Returns the wakers to
    /// call.
    ///
    /// In order of arrival, and not line by line: each caller waits in one line only, and callers of the same keys may
    /// wait in different ones.
    fn admit(&mut self, keys: &[String]) -> Vec<Waker> {
        let first =
            |lines: &Self, at: usize| lines.first_with_room(&keys[at]).map(|id| Reverse((id, at)));
        let mut woken = Vec::new();
        let mut next: BinaryHeap<_> = (0..keys.len()).filter_map(|at| first(self, at)).collect();
        while let Some(Reverse((id, at))) = next.pop() {
            // By now, an earlier one may hold it back in this line too.
            woken.extend(self.leave_line(id, &keys[at]));
            next.extend(first(self, at));
        }
        woken
    }

    /// Gives a caller its turn that waits in the line of this key, and returns its waker. If a line holds it back, it
    /// waits there from now on.
    fn leave_line(&mut self, id: NonZeroU64, key: &str) -> Option<Waker> {
        self.by_key.get_mut(key)?.crowd.as_mut()?.held_back.remove(&id);
        let mut waiting = self.waiting.remove(&id)?;
        if let Some(line) = self.held_back(id, &waiting.keys, waiting.share) {
            waiting.line = line;
            self.wait_in(id, &waiting.keys[line]);
            self.waiting.insert(id, waiting);
            return None;
        }
        let Waiting { keys, share, taken, waker, .. } = waiting;
        self.set_parts(id, &keys, |at| part_at(taken.as_ref(), share, at));
        waker
    }
}

impl Ticket {
    /// Unique among the callers of the client, and ascending.
    pub(super) fn number(&self) -> usize {
        usize::try_from(self.id.get()).unwrap_or_default()
    }

    pub(crate) fn has_turn(&self) -> bool {
        let waits = |lines: MutexGuard<'_, Lines>| lines.waiting.contains_key(&self.id);
        self.has_turn.load(Ordering::Relaxed) || !self.queue.lines().is_some_and(waits)
    }

    pub(crate) async fn turn(&self) {
        // The check and the registration use one lock, so that no wake-up is missed in between.
        poll_fn(|cx| {
            if self.has_turn.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            // Wakers are cloned and dropped without the mutex, because that may run code of the program.
            let mut waker = Some(cx.waker().clone());
            let mut lines = self.queue.lines();
            let waiting = lines.as_mut().and_then(|lines| lines.waiting.get_mut(&self.id));
            let waits = waiting.map(|waiting| std::mem::swap(&mut waiting.waker, &mut waker));
            drop(lines);
            self.has_turn.store(waits.is_none(), Ordering::Relaxed);
            if waits.is_some() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Records that the nodes refused these keys. Callers that want only the other keys get their turn. `taken` is
    /// empty if the round ended without a refusal, and `None` if this caller goes on with its share.
    pub(crate) fn refused(&self, taken: Option<&Places>) {
        let (Some(taken), Some(mut lines)) = (taken, self.queue.lines()) else { return };
        lines.set_parts(self.id, &self.keys, |at| if taken.has(at) { WHOLE_LINE } else { 0 });
        // If other clients hold all of the keys, nothing changes for later callers.
        let woken = if taken.all(self.keys.len()) { Vec::new() } else { lines.admit(&self.keys) };
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Requests another turn at the old position. `taken` is that of [`Self::refused`].
    pub(crate) fn requeue(&self, taken: Option<Places>) {
        let Some(mut lines) = self.queue.lines() else { return };
        let has_turn = lines.start_or_wait(self.id, &self.keys, self.share, taken);
        self.has_turn.store(has_turn, Ordering::Relaxed);
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
            line.set_part(self.id, 0);
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
        let _first = queue.join(&keys, Share::WHOLE);
        let dropped = Arc::default();
        let waits = |ticket: &Ticket| {
            let waker = Waker::from(Arc::new(Task(Arc::clone(&queue), Arc::clone(&dropped))));
            let mut turn = std::pin::pin!(ticket.turn());
            assert!(turn.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        };
        let second = queue.join(&keys, Share::WHOLE);
        waits(&second);
        // The next poll replaces the waker, and the end of the acquire drops it.
        waits(&second);
        drop(second);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }

    /// The callers that have their turn.
    fn with_turn(tickets: &[Ticket]) -> Vec<usize> {
        (0..tickets.len()).filter(|at| tickets[*at].has_turn()).collect()
    }

    #[test]
    fn callers_of_a_semaphore_share_its_line() {
        let (queue, keys) = (Arc::new(Queue::default()), Arc::from(["pool#".to_owned()]));
        let join = |own| queue.join(&keys, Share { own, whole: 3 });
        let mut tickets: Vec<_> = [1, 1, 2, 1, 1].map(join).into();
        // The third one has no room, and those behind it do not overtake it.
        assert_eq!(with_turn(&tickets), [0, 1]);
        tickets.remove(0);
        assert_eq!(with_turn(&tickets), [0, 1]);
        // A refused caller takes the whole line from later ones.
        let taken = Some([0].into_iter().collect());
        tickets[0].refused(taken.as_ref());
        tickets[1].refused(taken.as_ref());
        tickets[0].requeue(taken.clone());
        tickets[1].requeue(taken.clone());
        assert_eq!(with_turn(&tickets), [0]);
        // One that found other places open keeps its share only.
        tickets[0].requeue(None);
        assert_eq!(with_turn(&tickets), [0, 1]);
        // The refused caller is next, and tries alone.
        tickets.remove(0);
        assert_eq!(with_turn(&tickets), [0]);
        tickets.remove(0);
        assert_eq!(with_turn(&tickets), [0, 1]);
        drop(tickets);
        assert_eq!(queue.callers(), 0);
    }

    /// A thread of the parent locked the lines during the fork. That thread does not exist in the child.
    #[test]
    fn forked_child_does_not_wait_for_a_thread_of_its_parent() {
        let of_parent = Queue(Made::of_parent(Mutex::default()));
        let queue = Arc::new(of_parent);
        let locked = queue.0.lock().unwrap();
        let ticket = queue.join(&Arc::from(["job".to_owned()]), Share::WHOLE);
        ticket.requeue(Some(Places::default()));
        assert!(ticket.has_turn() && ticket.is_first() && ticket.no_quorum().is_none());
        drop(ticket);
        assert_eq!(queue.callers(), 0);
        drop(locked);
    }
}
