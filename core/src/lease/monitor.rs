//! The monitor of a client's leases: starts renewals when they are due, and ends a lease at its deadline.
//!
//! One task serves all leases. The first renewal is due after a third of the TTL ([`super::state`]). The result of each
//! renewal determines the time of the next one ([`super::renewal`]). A late renewal cannot delay the deadline: the
//! lease is lost, and its holder is notified, whether or not a renewal is under way.
//!
//! The verdict of [`super::extend`] decides what a renewal means: a confirmed renewal moves the deadline, and a denied
//! one is a loss. An unknown result changes nothing, so the deadline may pass.
//!
//! The monitor has access to the registry and the changes only. It therefore ends when the last object that could make
//! or change a lease is dropped. It sends no commands to the nodes: the futures of [`super::renewal`] do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::task::coop::unconstrained;

use super::registry::Registry;
use super::renewal::{Work, renew, to_check};
use super::state::State;
use crate::clock::{Clock, Instant, NEVER};
use crate::node::{Changes, PendingChanges, slot};

/// Renewals that are due within this time are sent with the one that is due, so that many leases share packets and
/// wake-ups.
const TOGETHER: Duration = Duration::from_millis(5);
/// Minimum time between two checks of all leases, or of all leases in some hash slots.
const ALL_AGAIN: Duration = Duration::from_millis(100);
/// How many events of ended leases the agenda may hold before they are removed.
const STALE: usize = 1024;

type Agenda = BinaryHeap<Reverse<(Instant, Due, u64)>>;

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
    let (agenda, renewals) = (BinaryHeap::new(), FuturesUnordered::new());
    let all_from = Instant::default();
    let monitor = Monitor { registry, clock, changes, agenda, renewals, all_from };
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
    /// Renewals, checks and their remaining work. All run concurrently.
    renewals: FuturesUnordered<Work>,
    /// From when on all leases may be checked again.
    all_from: Instant,
}

impl Monitor {
    /// Runs until the source of changes is closed, which happens when the client is dropped.
    async fn run(mut self) {
        loop {
            let mut next = self.plan();
            if self.changes.many_wait() {
                next = next.min(self.all_from);
            }
            // Timers come first: no deadline waits behind notifications or finished renewals.
            tokio::select! {
                biased;
                () = self.clock.sleep_until(next), if next < NEVER => {
                    if self.changes.many_wait() && self.clock.now() >= self.all_from {
                        // Reported earlier, and held back until the next check of all leases is allowed.
                        let changes = self.changes.take(true);
                        self.check(&changes);
                    }
                    self.run_due_events();
                }
                () = self.changes.changed() => {
                    let changes = self.changes.take(self.clock.now() >= self.all_from);
                    if changes.closed {
                        return;
                    }
                    self.check(&changes);
                },
                Some(first) = self.renewals.next(), if !self.renewals.is_empty() => {
                    // Renewals finish in batches. One turn of the loop for each would cost more than the renewal.
                    let mut done = Some(first);
                    while let Some(done_one) = done {
                        let again = done_one.again;
                        self.agenda.extend(again.map(|(at, id)| Reverse((at, Due::Renewal, id))));
                        self.renewals.extend(done_one.rest);
                        done = self.renewals.next().now_or_never().flatten();
                    }
                }
                // The next turn of the loop calls `plan`, which sees the new lease.
                () = self.registry.early() => {}
            }
        }
    }

    /// Checks every lease that a change may concern.
    fn check(&mut self, changes: &PendingChanges) {
        for key in &changes.keys {
            self.renewals.extend(to_check(self.registry.on(key)));
        }
        if !changes.all && changes.slots.is_empty() {
            return;
        }
        // Rate limit: a node that reconnects or sends many notifications would otherwise trigger a check of every lease
        // at every node each time.
        self.all_from = self.clock.now() + ALL_AGAIN;
        let mut leases = self.registry.leases();
        let moved = |key: &String| changes.slots.contains(&slot(key));
        leases.retain(|state| changes.all || state.params.claim.keys.first().is_some_and(moved));
        self.renewals.extend(to_check(leases));
    }

    /// Removes events of ended leases, because leases with long TTLs may come and go by the thousand.
    fn remove_ended_events(&mut self) {
        // Runs only if it at least halves the agenda. This spreads the cost over as many leases as were removed.
        if self.agenda.len() > STALE && self.agenda.len() > STALE + 4 * self.registry.count() {
            let leases = self.registry.leases();
            let known: HashSet<u64> = leases.iter().map(|state| state.id).collect();
            self.agenda.retain(|Reverse((_, _, id))| known.contains(id));
        }
    }

    /// Adds the events of new leases to the agenda. Returns when to look again.
    fn plan(&mut self) -> Instant {
        self.remove_ended_events();
        let agenda = &mut self.agenda;
        self.registry.plan(self.clock.now(), |new| {
            agenda.extend(new.iter().flat_map(|state| events(state)).map(Reverse));
            // Read after the new events are added, because the first event may be one of them.
            agenda.peek().map_or(NEVER, |Reverse((at, _, _))| *at)
        })
    }

    /// Starts the renewals that are due and checks the deadlines. Reading a deadline marks an expired lease as lost.
    fn run_due_events(&mut self) {
        for (due, state) in self.due() {
            match due {
                Due::Renewal => self.renewals.push(renew(state)),
                Due::Deadline => {
                    // The deadline has moved, if the lease was extended.
                    if let Some(deadline) = state.deadline() {
                        self.agenda.push(Reverse((deadline, Due::Deadline, state.id)));
                    }
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
        while let Some(Reverse((at, what, id))) = self.agenda.peek().copied()
            && at <= soon(what)
        {
            self.agenda.pop();
            due.push((what, id));
        }
        self.registry.find(due)
    }
}

/// A deadline, and the first renewal if the lease is renewed. Both may already have passed if the round was slow.
fn events(state: &State) -> impl Iterator<Item = (Instant, Due, u64)> + use<> {
    let id = state.id;
    let deadline = state.deadline().map(|at| (at, Due::Deadline, id));
    let renewal = state.first_renewal().map(|at| (at, Due::Renewal, id));
    deadline.into_iter().chain(renewal)
}
