//! The keeper of a client's leases: renewals, and the deadline that no renewal can delay.
//!
//! One task for all leases. A renewal is Renewed, Lost or Unknown; only Renewed moves the deadline, and time
//! alone turns Unknown into Lost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Notify;

use crate::clock::{Clock, Instant, NEVER};
use crate::node::Changes;
use crate::renew::{Work, check, renew};
use crate::state::State;

/// New leases are looked at this often; one that is gone by then was never looked at.
const GRACE: Duration = Duration::from_millis(100);
/// Renewals that are due so soon go out with one that is due: many leases share their packets and wake-ups.
const TOGETHER: Duration = Duration::from_millis(5);
/// That all keys may have changed is looked into this often, however often it is said.
const ALL_AGAIN: Duration = Duration::from_millis(100);
/// Released leases that were never looked at, above which the list of new ones is cleaned.
const UNSEEN: usize = 1024;

pub(crate) struct Keeper {
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
    wake: Notify,
}

struct Book {
    next_id: u64,
    leases: BTreeMap<u64, Weak<State>>,
    /// The leases on each key; several where tokens were attached to.
    by_key: HashMap<String, Vec<u64>>,
    new: Vec<u64>,
    /// When the keeper looks here by itself.
    planned: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Deadline,
    Renewal,
}

impl Keeper {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let book = Book {
            next_id: 0,
            leases: BTreeMap::new(),
            by_key: HashMap::new(),
            new: Vec::new(),
            planned: NEVER,
        };
        Self { clock, book: Mutex::new(book), wake: Notify::new() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn new_id(&self) -> u64 {
        let mut book = self.book();
        book.next_id += 1;
        book.next_id
    }

    pub(crate) fn track(&self, state: &Arc<State>) {
        let first = events(state).map(|(at, ..)| at).min().unwrap_or(NEVER);
        let mut book = self.book();
        book.leases.insert(state.id, Arc::downgrade(state));
        for key in state.terms.claim.keys.iter() {
            book.by_key.entry(key.clone()).or_default().push(state.id);
        }
        book.new.push(state.id);
        let early = first < book.planned;
        drop(book);
        if early {
            self.wake.notify_one();
        }
    }

    pub(crate) fn forget(&self, state: &State) {
        let mut book = self.book();
        if book.leases.remove(&state.id).is_some() {
            for key in state.terms.claim.keys.iter() {
                if let Some(ids) = book.by_key.get_mut(key) {
                    ids.retain(|id| *id != state.id);
                    if ids.is_empty() {
                        book.by_key.remove(key);
                    }
                }
            }
            if book.new.len() > UNSEEN + 2 * book.leases.len() {
                let Book { new, leases, .. } = &mut *book;
                new.retain(|id| leases.contains_key(id));
            }
        }
    }

    /// The leases that were not released yet.
    pub(crate) fn leases(&self) -> Vec<Arc<State>> {
        self.book().leases.values().filter_map(Weak::upgrade).collect()
    }

    /// This client's own leases on a key.
    pub(crate) fn holders(&self, key: &str) -> Vec<Arc<State>> {
        let book = self.book();
        let ids = book.by_key.get(key).into_iter().flatten();
        ids.filter_map(|id| book.leases.get(id).and_then(Weak::upgrade)).collect()
    }

    /// Other leases of the same token: one owner's, of which one has attached to the other's.
    pub(crate) fn twins(&self, state: &State) -> Vec<Arc<State>> {
        let keys = state.terms.claim.keys.iter();
        let holders = keys.flat_map(|key| self.holders(key));
        holders.filter(|other| other.terms.claim.token == state.terms.claim.token).collect()
    }

    /// Keeps leases until nobody is left who could make or change one.
    pub(crate) async fn run(self: Arc<Self>, changes: Arc<Changes>) {
        let mut agenda = BinaryHeap::new();
        let mut renewals = FuturesUnordered::new();
        let mut all_from = Instant::default();
        loop {
            let mut next = self.plan(&mut agenda);
            if changes.all_waits() {
                next = next.min(all_from);
            }
            tokio::select! {
                biased;
                () = self.clock.sleep_until(next), if next < NEVER => {
                    if changes.all_waits() && self.clock.now() >= all_from {
                        all_from = self.clock.now() + ALL_AGAIN;
                        changes.take(true);
                        renewals.extend(to_check(self.leases()));
                    }
                    for (due, state) in self.due(&mut agenda) {
                        match due {
                            Due::Renewal => renewals.push(renew(state)),
                            Due::Deadline => if let Some(deadline) = state.deadline() {
                                agenda.push(Reverse((deadline, Due::Deadline, state.id)));
                            },
                        }
                    }
                }
                () = changes.told() => {
                    let told = changes.take(self.clock.now() >= all_from);
                    if told.closed {
                        return;
                    }
                    if told.all {
                        all_from = self.clock.now() + ALL_AGAIN;
                        renewals.extend(to_check(self.leases()));
                    }
                    for key in told.keys {
                        renewals.extend(to_check(self.holders(&key)));
                    }
                },
                Some(first) = renewals.next(), if !renewals.is_empty() => {
                    // Renewals come back in batches; a turn of the loop for each would cost more than they do.
                    let mut done = Some(first);
                    while let Some(done_one) = done {
                        let again = done_one.again;
                        agenda.extend(again.map(|(at, id)| Reverse((at, Due::Renewal, id))));
                        renewals.extend(done_one.rest);
                        done = renewals.next().now_or_never().flatten();
                    }
                }
                () = self.wake.notified() => {}
            }
        }
    }

    /// Takes new leases onto the agenda; answers when to look again.
    fn plan(&self, agenda: &mut Agenda) -> Instant {
        let now = self.clock.now();
        let mut book = self.book();
        let new = std::mem::take(&mut book.new);
        let states: Vec<_> =
            new.iter().filter_map(|id| book.leases.get(id).and_then(Weak::upgrade)).collect();
        let soon = if new.is_empty() { NEVER } else { now + GRACE };
        let events = states.iter().flat_map(|state| events(state));
        agenda.extend(events.map(Reverse));
        let next = agenda.peek().map_or(NEVER, |Reverse((at, _, _))| *at).min(soon);
        book.planned = next;
        drop(book);
        next
    }

    fn due(&self, agenda: &mut Agenda) -> Vec<(Due, Arc<State>)> {
        let now = self.clock.now();
        let book = self.book();
        let mut due = Vec::new();
        let soon = |what| if what == Due::Renewal { now + TOGETHER } else { now };
        while let Some(Reverse((at, what, id))) = agenda.peek().copied()
            && at <= soon(what)
        {
            agenda.pop();
            due.extend(book.leases.get(&id).and_then(Weak::upgrade).map(|state| (what, state)));
        }
        due
    }
}

fn to_check(leases: Vec<Arc<State>>) -> impl Iterator<Item = Work> {
    leases.into_iter().filter(|state| state.wants_check()).map(check)
}

type Agenda = BinaryHeap<Reverse<(Instant, Due, u64)>>;

/// A deadline, and with renewal a third of the ttl after the round began: both may be near, or over, where it took long.
fn events(state: &State) -> impl Iterator<Item = (Instant, Due, u64)> + use<> {
    let id = state.id;
    let acquired = state.terms.acquired;
    let deadline = state.deadline().map(|at| (at, Due::Deadline, id));
    let renewal = state.renewal().map(|ttl| (acquired + ttl / 3, Due::Renewal, id));
    deadline.into_iter().chain(renewal)
}
