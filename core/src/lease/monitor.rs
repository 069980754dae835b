//! The monitor of a client's leases: renewals, and the deadline that no renewal can delay.
//!
//! One task for all leases. What a renewal's answers mean is the verdict of [`super::extend`]: Extended moves the
//! deadline, Gone is a loss at once, and of Unknown nothing comes but that the deadline may pass, which is seen here.
//!
//! It has the registry and the changes, and none of what makes leases: so it ends by itself when the last of
//! those who could make or change one is gone. It never asks a node by itself: what it begins are the pieces of
//! work of [`super::renewal`].

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
use crate::node::{Changes, Told, slot};

/// Renewals that are due so soon go out with one that is due: many leases share their packets and wake-ups. 10,000
/// leases that were acquired one after the other take a third less of the processor for it.
const TOGETHER: Duration = Duration::from_millis(5);
/// That all keys, or those of some hash slots, may have changed is looked into this often, however often it is said.
const ALL_AGAIN: Duration = Duration::from_millis(100);
/// So many events of leases that are over may be on the agenda before they are taken off it.
const STALE: usize = 1024;

/// What is due, when, and for which lease; the earliest comes first.
type Agenda = BinaryHeap<Reverse<(Instant, Due, u64)>>;

/// In this order where two are due at once: a lease that is over is not renewed any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The lease ends, if nothing moved its deadline.
    Deadline,
    /// An extend round is to be sent.
    Renewal,
}

/// Keeps leases until nobody is left who could make or change one.
pub(crate) async fn monitor(
    registry: Arc<Registry<State>>,
    clock: Arc<dyn Clock>,
    changes: Arc<Changes>,
) {
    let (agenda, renewals) = (BinaryHeap::new(), FuturesUnordered::new());
    let all_from = Instant::default();
    let monitor = Monitor { registry, clock, changes, agenda, renewals, all_from };
    // Not counted by tokio, which would have 128 renewals go on in a turn, and all others polled for nothing and woken
    // again: of 100,000 leases most were lost to that.
    unconstrained(monitor.run()).await;
}

struct Monitor {
    registry: Arc<Registry<State>>,
    clock: Arc<dyn Clock>,
    changes: Arc<Changes>,
    /// At most one deadline and one renewal of each lease, and for a while those of leases that are over: an
    /// entry is looked up when it is due, never taken out before.
    agenda: Agenda,
    /// Renewals, checks and what is left of them, all under way at once: none waits for another.
    renewals: FuturesUnordered<Work>,
    /// From then on it may be looked into again whether all keys have changed.
    all_from: Instant,
}

impl Monitor {
    /// The monitor's task, until nobody can tell of changes any more: its client is gone then.
    async fn run(mut self) {
        loop {
            let mut next = self.plan();
            if self.changes.many_wait() {
                next = next.min(self.all_from);
            }
            // Time first: however much is told or comes back, no deadline waits behind it.
            tokio::select! {
                biased;
                () = self.clock.sleep_until(next), if next < NEVER => {
                    if self.changes.many_wait() && self.clock.now() >= self.all_from {
                        // Said a while ago, and held back until it might be looked into again.
                        let told = self.changes.take(true);
                        self.check(&told);
                    }
                    self.do_due();
                }
                () = self.changes.told() => {
                    let told = self.changes.take(self.clock.now() >= self.all_from);
                    if told.closed {
                        return;
                    }
                    self.check(&told);
                },
                Some(first) = self.renewals.next(), if !self.renewals.is_empty() => {
                    // Renewals come back in batches; a turn of the loop for each would cost more than they do.
                    let mut done = Some(first);
                    while let Some(done_one) = done {
                        let again = done_one.again;
                        self.agenda.extend(again.map(|(at, id)| Reverse((at, Due::Renewal, id))));
                        self.renewals.extend(done_one.rest);
                        done = self.renewals.next().now_or_never().flatten();
                    }
                }
                // The turn of the loop is all: `plan` looks at the new lease.
                () = self.registry.early() => {}
            }
        }
    }

    /// Has every lease checked that a change may concern.
    fn check(&mut self, told: &Told) {
        for key in &told.keys {
            self.renewals.extend(to_check(self.registry.on(key)));
        }
        if !told.all && told.slots.is_empty() {
            return;
        }
        // A node that comes and goes, or floods, says so at every turn, and each time every node would be asked
        // about every lease.
        self.all_from = self.clock.now() + ALL_AGAIN;
        let mut leases = self.registry.leases();
        let moved = |key: &String| told.slots.contains(&slot(key));
        leases.retain(|state| told.all || state.params.claim.keys.first().is_some_and(moved));
        self.renewals.extend(to_check(leases));
    }

    /// What is over need not wait for its hour: leases of hours may come and go by the thousand.
    fn forget_what_is_over(&mut self) {
        // Rarely, and only where it halves the agenda at least: the cost of a look is spread over as many that
        // came and went.
        if self.agenda.len() > STALE && self.agenda.len() > STALE + 4 * self.registry.count() {
            let leases = self.registry.leases();
            let known: HashSet<u64> = leases.iter().map(|state| state.id).collect();
            self.agenda.retain(|Reverse((_, _, id))| known.contains(id));
        }
    }

    /// Takes new leases onto the agenda; answers when to look again.
    fn plan(&mut self) -> Instant {
        self.forget_what_is_over();
        let agenda = &mut self.agenda;
        self.registry.plan(self.clock.now(), |new| {
            agenda.extend(new.iter().flat_map(|state| events(state)).map(Reverse));
            // With the new ones on it: the first event may be one of theirs.
            agenda.peek().map_or(NEVER, |Reverse((at, _, _))| *at)
        })
    }

    /// Begins the renewals that are due, and looks at deadlines: asking for one is what marks a loss.
    fn do_due(&mut self) {
        for (due, state) in self.due() {
            match due {
                Due::Renewal => self.renewals.push(renew(state)),
                Due::Deadline => {
                    // It has moved meanwhile, if it was extended.
                    if let Some(deadline) = state.deadline() {
                        self.agenda.push(Reverse((deadline, Due::Deadline, state.id)));
                    }
                }
            }
        }
    }

    /// What is due, and renewals that nearly are. Leases that are gone meanwhile are left out.
    fn due(&mut self) -> Vec<(Due, Arc<State>)> {
        let now = self.clock.now();
        // Never a deadline: before its time nothing is lost.
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

/// A deadline, and with renewal a third of the ttl after the round began: both may be near, or over, where it took
/// long.
fn events(state: &State) -> impl Iterator<Item = (Instant, Due, u64)> + use<> {
    let id = state.id;
    let deadline = state.deadline().map(|at| (at, Due::Deadline, id));
    let renewal = state.first_renewal().map(|at| (at, Due::Renewal, id));
    deadline.into_iter().chain(renewal)
}
