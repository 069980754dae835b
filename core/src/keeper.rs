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
use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock::{Clock, Instant, NEVER};
use crate::node::Change;
use crate::renew::{check, renew};
use crate::state::State;

/// New leases are looked at this often; one that is gone by then was never looked at.
const GRACE: Duration = Duration::from_millis(100);
/// Renewals that are due so soon go out with one that is due: many leases share their packets and wake-ups.
const TOGETHER: Duration = Duration::from_millis(5);

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
        let first = first_due(state, self.clock.now());
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
    pub(crate) async fn run(self: Arc<Self>, mut changes: UnboundedReceiver<Change>) {
        let mut agenda = BinaryHeap::new();
        let mut renewals = FuturesUnordered::new();
        loop {
            let next = self.plan(&mut agenda);
            tokio::select! {
                biased;
                () = self.clock.sleep_until(next), if next < NEVER => {
                    for (due, state) in self.due(&mut agenda) {
                        match due {
                            Due::Renewal => renewals.push(renew(state)),
                            Due::Deadline => if let Some(deadline) = state.deadline() {
                                agenda.push(Reverse((deadline, Due::Deadline, state.id)));
                            },
                        }
                    }
                }
                change = changes.recv() => match change {
                    Some(change) => renewals.extend(self.concerned(&change).into_iter().map(check)),
                    None => return,
                },
                Some(first) = renewals.next(), if !renewals.is_empty() => {
                    // Renewals come back in batches; a turn of the loop for each would cost more than they do.
                    let mut done = Some(first);
                    while let Some(again) = done {
                        agenda.extend(again.map(|(at, id)| Reverse((at, Due::Renewal, id))));
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
        let events = states.iter().flat_map(events);
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

    fn concerned(&self, change: &Change) -> Vec<Arc<State>> {
        match change {
            Change::Key(key) => self.holders(key),
            Change::All => self.leases(),
        }
    }
}

type Agenda = BinaryHeap<Reverse<(Instant, Due, u64)>>;

fn first_due(state: &State, now: Instant) -> Instant {
    match state.renewal() {
        Some(ttl) => now + ttl / 3,
        None => state.deadline().unwrap_or(now),
    }
}

fn events(state: &Arc<State>) -> impl Iterator<Item = (Instant, Due, u64)> + use<> {
    let id = state.id;
    let acquired = state.terms.acquired;
    let deadline = state.deadline().map(|at| (at, Due::Deadline, id));
    let renewal = state.renewal().map(|ttl| (acquired + ttl / 3, Due::Renewal, id));
    deadline.into_iter().chain(renewal)
}
