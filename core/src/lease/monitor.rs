//! The monitor of a client's leases: starts renewals when they are due, and looks at each lease at its deadline, which
//! ends it ([`super::state`]).
//!
//! One task serves all leases of a client. It runs on the background thread ([`background`]), or on a test's runtime
//! with the clock of tokio. A blocked runtime of the program therefore does not delay it. The first renewal is due
//! after a third of the TTL ([`super::state`]). The result of each renewal determines the time of the next one
//! ([`super::renewal`]). A late renewal cannot delay the deadline: the lease is lost, and its holder is notified,
//! whether or not a renewal is under way.
//!
//! The verdict of [`super::extend`] decides what a renewal means: a confirmed renewal moves the deadline, and a denied
//! one is a loss. An unknown result changes nothing, so the deadline may pass.
//!
//! The monitor has access to the registry and the changes only. It therefore ends when the last object that could make
//! or change a lease is dropped. It sends no commands to the nodes: the futures of [`super::renewal`] do.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::task::coop::unconstrained;

use super::registry::Registry;
use super::renewal::{Work, renew, to_check};
use super::state::State;
use crate::clock::{Clock, Instant, NEVER};
use crate::node::{Changes, slot};
use crate::runtime::background;

/// Renewals that are due within this time are sent with the one that is due, so that many leases share packets and
/// wake-ups.
const TOGETHER: Duration = Duration::from_millis(5);
/// Minimum time between two checks of all leases, or of all leases in some hash slots.
const ALL_AGAIN: Duration = Duration::from_millis(100);
/// How many events of ended leases the agenda may hold before they are removed.
const STALE: usize = 256;
/// The pause before the monitor looks again, after it found another thread inside the registry.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// By time, kind and number of the lease. It has the leases, so that none has to be looked up when an event is due.
type Agenda = BTreeMap<(Instant, Due, u64), Weak<State>>;

/// The order of events that are due at the same time: an ended lease is not renewed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Deadline,
    Renewal,
}

/// Keeps leases until no object is left that could make or change one.
pub(crate) async fn monitor(
    registry: Arc<Registry<State>>,
    clock: Arc<dyn Clock>,
    changes: Arc<Changes>,
) {
    let (agenda, left, renewals) = (Agenda::new(), 0, FuturesUnordered::new());
    let all_from = Instant::default();
    let monitor = Monitor { registry, clock, changes, agenda, left, renewals, all_from };
    // Without tokio's cooperative budget. With it, tokio would run only 128 renewals per turn and wake all the others
    // for nothing.
    unconstrained(monitor.run()).await;
}

struct Monitor {
    registry: Arc<Registry<State>>,
    clock: Arc<dyn Clock>,
    changes: Arc<Changes>,
    /// At most one deadline and one renewal of each lease, and temporarily those of ended leases. An entry is checked
    /// when it is due, and not removed earlier.
    agenda: Agenda,
    /// The number of events after the last removal of those of ended leases.
    left: usize,
    /// Renewals, checks and their remaining work. All run concurrently.
    renewals: FuturesUnordered<Work>,
    /// From when on all leases may be checked again.
    all_from: Instant,
}

impl Monitor {
    /// Runs until the source of changes is closed, which happens when the client is dropped.
    async fn run(mut self) {
        // Whether changes are to be checked.
        let mut changed = false;
        loop {
            let planned = self.plan();
            // Slots and "all leases" are held back until the next check of all leases is allowed.
            changed |= self.changes.many_wait() && self.clock.now() >= self.all_from;
            if changed {
                match self.check() {
                    Some(closed) if closed => return,
                    checked => changed = checked.is_none(),
                }
            }
            let planned = planned.filter(|_| !changed);
            // Another thread is inside the registry. It may be suspended, so everything else continues without it.
            let busy = planned.is_none();
            let next = match planned {
                None => self.first_event(),
                Some(next) if self.changes.many_wait() => next.min(self.all_from),
                Some(next) => next,
            };
            // Timers come first: no deadline waits behind notifications or finished renewals.
            tokio::select! {
                biased;
                () = self.clock.sleep_until(next), if next < NEVER => self.run_due_events(),
                () = self.changes.changed() => changed = true,
                Some(first) = self.renewals.next(), if !self.renewals.is_empty() => {
                    // Renewals finish in batches. One turn of the loop for each would cost more than the renewal.
                    let mut done = Some(first);
                    while let Some(done_one) = done {
                        let again = done_one.again.into_iter();
                        self.agenda.extend(again.map(|(at, state)| event(at, Due::Renewal, &state)));
                        self.renewals.extend(done_one.rest);
                        done = self.renewals.next().now_or_never().flatten();
                    }
                }
                // The next turn of the loop calls `plan`, which sees the new lease.
                () = self.registry.early() => {}
                () = background::sleep(BUSY_PAUSE), if busy => {}
            }
        }
    }

    /// Checks every lease that a change may concern. Returns whether no further changes can arrive, or `None` if
    /// another thread is inside the registry.
    fn check(&mut self) -> Option<bool> {
        let now = self.clock.now();
        let (changes, on_keys, all) = self.registry.try_find(|leases| {
            let changes = self.changes.take(now >= self.all_from);
            let on_keys: Vec<_> = changes.keys.iter().flat_map(|key| leases.on(key)).collect();
            let many = changes.all || !changes.slots.is_empty();
            (changes, on_keys, many.then(|| leases.all()))
        })?;
        self.renewals.extend(to_check(on_keys));
        if let Some(mut leases) = all {
            // Rate limit: a node that reconnects or sends many notifications would otherwise trigger a check of every
            // lease at every node each time.
            self.all_from = now + ALL_AGAIN;
            let moved = |key: &String| changes.slots.contains(&slot(key));
            leases.retain(|state| changes.all || state.keys().first().is_some_and(moved));
            self.renewals.extend(to_check(leases));
        }
        Some(changes.closed)
    }

    /// Adds the events of new leases to the agenda. Returns when to look again, or `None` if another thread is inside
    /// the registry.
    fn plan(&mut self) -> Option<Instant> {
        let (new, most_ended, next) =
            self.registry.try_plan(self.clock.now(), self.first_event())?;
        self.agenda.extend(new.iter().flat_map(events));
        // Leases with long TTLs may come and go by the thousand. An event keeps the memory of its lease.
        if most_ended || self.agenda.len() > STALE + 2 * self.left {
            self.agenda.retain(|_, lease| lease.strong_count() > 0);
            self.left = self.agenda.len();
        }
        Some(next)
    }

    fn first_event(&self) -> Instant {
        self.agenda.first_key_value().map_or(NEVER, |((at, ..), _)| *at)
    }

    /// Starts the renewals that are due and checks the deadlines. Reading a deadline marks an expired lease as lost.
    fn run_due_events(&mut self) {
        for (due, state) in self.due() {
            match due {
                Due::Renewal => self.renewals.push(renew(state)),
                Due::Deadline => {
                    // The deadline has moved, if the lease was extended.
                    let deadline = state.deadline().into_iter();
                    self.agenda.extend(deadline.map(|at| event(at, Due::Deadline, &state)));
                }
            }
        }
    }

    /// The events that are due, and the renewals that soon will be. Dropped leases are left out.
    fn due(&mut self) -> Vec<(Due, Arc<State>)> {
        let now = self.clock.now();
        // A deadline is never early: a lease is not lost before its time.
        let soon = |what| if what == Due::Renewal { now + TOGETHER } else { now };
        let mut due = Vec::new();
        while let Some(first) = self.agenda.first_entry()
            && let (at, what, _) = *first.key()
            && at <= soon(what)
        {
            due.extend(first.remove().upgrade().map(|state| (what, state)));
        }
        due
    }
}

/// An entry of the agenda.
fn event(at: Instant, due: Due, state: &Arc<State>) -> ((Instant, Due, u64), Weak<State>) {
    ((at, due, state.id), Arc::downgrade(state))
}

/// A deadline, and the first renewal if the lease is renewed. Both may already have passed if the round was slow.
fn events(state: &Arc<State>) -> impl Iterator<Item = ((Instant, Due, u64), Weak<State>)> {
    let deadline = state.deadline().map(|at| event(at, Due::Deadline, state));
    let renewal = state.first_renewal().map(|at| event(at, Due::Renewal, state));
    deadline.into_iter().chain(renewal)
}
