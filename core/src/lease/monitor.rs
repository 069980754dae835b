//! The monitor of a client's leases: starts renewals when they are due, and looks at each lease at its deadline, which
//! ends it ([`super::state`]).
//!
//! One task serves all leases of a client. It runs on the background thread ([`background`]), so a blocked runtime of
//! the program does not delay it. The first renewal is due after a third of the TTL. The result of each
//! renewal determines the time of the next one ([`super::renewal`]). A late renewal cannot delay the deadline: the
//! lease is lost, and its holder is notified, whether or not a renewal is under way. Nor can many renewals that are due
//! at once: a turn runs few of them, and each turn begins with the deadlines.
//!
//! The verdict of [`super::extend`] decides what a renewal means: a confirmed renewal moves the deadline, and a denied
//! one is a loss. An unknown result changes nothing, so the deadline may pass.
//!
//! The monitor has access to the registry and the changes only. It therefore ends when the last object that could make
//! or change a lease is dropped. It sends no commands to the nodes: the futures of [`super::renewal`] do.

use std::collections::{BTreeMap, VecDeque};
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::coop::unconstrained;
use tokio::task::yield_now;

use super::registry::Registry;
use super::renewal::{LeaseWork, NextEvent, check_if_idle, renew};
use super::state::LeaseState;
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

/// How many renewals and checks a turn begins, and how many of them it runs. It takes about a millisecond.
const MAX_TURN_WORK: usize = 256;

/// By time and number of the lease. It has the leases, so that none has to be looked up when an event is due.
type Agenda = BTreeMap<(Instant, u64), Weak<LeaseState>>;

/// Keeps leases until no object is left that could make or change one.
pub(crate) async fn monitor(
    registry: Arc<Registry<LeaseState>>,
    clock: Arc<dyn Clock>,
    changes: Arc<Changes>,
) {
    let monitor = Monitor {
        registry,
        clock,
        changes,
        deadlines: Agenda::new(),
        due: Agenda::new(),
        left: 0,
        to_check: VecDeque::new(),
        renewals: FuturesUnordered::new(),
        turn: Arc::default(),
        all_from: Instant::default(),
    };
    // Without tokio's cooperative budget. With it, tokio would run only 128 renewals per turn and wake all the others
    // for nothing.
    unconstrained(monitor.run()).await;
}

struct Monitor {
    registry: Arc<Registry<LeaseState>>,
    clock: Arc<dyn Clock>,
    changes: Arc<Changes>,
    /// The deadline of each lease, and temporarily those of ended leases. An entry is checked when it is due, and not
    /// removed earlier. A renewal moves it.
    deadlines: Agenda,
    /// The next renewal of each lease, in the same way.
    due: Agenda,
    /// The number of events after the last removal of those of ended leases.
    left: usize,
    /// The leases to check in the next turns.
    to_check: VecDeque<Weak<LeaseState>>,
    /// Renewals, checks and their remaining work. All run concurrently.
    renewals: FuturesUnordered<InTurn>,
    /// How many of them this turn may still run.
    turn: Arc<AtomicUsize>,
    /// From when on all leases may be checked again.
    all_from: Instant,
}

/// A renewal or a check, of which a turn runs a limited number.
struct InTurn {
    work: LeaseWork,
    turn: Arc<AtomicUsize>,
}

impl Future for InTurn {
    type Output = NextEvent;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<NextEvent> {
        let less = |left: usize| left.checked_sub(1);
        if self.turn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            // After two futures that wake themselves, `FuturesUnordered` runs no further one.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.work.as_mut().poll(cx)
    }
}

impl Monitor {
    /// Runs until the source of changes is closed, which happens when the last node and lease are dropped.
    async fn run(mut self) {
        // Whether changes are to be checked.
        let mut changed = false;
        loop {
            // First, so that no loss waits behind renewals.
            self.check_deadlines();
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
            let mut behind = self.begin_due();
            let next = self.first_event();
            let next = planned.map_or(next, |planned| planned.min(next));
            let next =
                if self.changes.many_wait() && !busy { next.min(self.all_from) } else { next };
            let Self { clock, changes, registry, renewals, turn, .. } = &mut self;
            let mut finished = Vec::new();
            // Timers come first: no deadline waits behind notifications or finished renewals.
            tokio::select! {
                biased;
                // Not if more work is left, which must not begin before some of this turn's has run.
                () = clock.sleep_until(next), if next < NEVER && !behind => {}
                () = changes.changed() => changed = true,
                more = poll_fn(|cx| run_turn(renewals, turn, &mut finished, cx)) => behind |= more,
                // The next turn of the loop calls `plan`, which sees the new lease.
                () = registry.early() => {}
                () = background::sleep(BUSY_PAUSE), if busy && !behind => {}
                () = ready(()), if behind => {}
            }
            finished.into_iter().for_each(|next| self.follow(next));
            if behind {
                // Lets the other tasks of this thread work, for example those that send the renewals.
                yield_now().await;
            }
        }
    }

    /// Plans what follows a finished renewal or check.
    fn follow(&mut self, next: NextEvent) {
        let NextEvent { again, rest } = next;
        if let Some((at, state)) = again {
            self.due.insert((at, state.id), Arc::downgrade(&state));
            // Moved now. The old deadlines of thousands of renewed leases would delay a loss behind them.
            if let Some(deadline) = state.deadline() {
                self.plan_deadline(&state, deadline);
            }
        }
        self.renewals.extend(rest.map(|work| self.in_turn(work)));
    }

    fn plan_deadline(&mut self, state: &Arc<LeaseState>, deadline: Instant) {
        let before = state.plan_deadline(deadline);
        self.deadlines.remove(&(before, state.id));
        self.deadlines.insert((deadline, state.id), Arc::downgrade(state));
    }

    fn in_turn(&self, work: LeaseWork) -> InTurn {
        InTurn { work, turn: Arc::clone(&self.turn) }
    }

    /// Finds every lease that a change may concern, for a check. Returns whether no further changes can arrive, or
    /// `None` if another thread is inside the registry.
    fn check(&mut self) -> Option<bool> {
        let now = self.clock.now();
        // Not while earlier checks are left, so that their number is limited.
        let many = now >= self.all_from && self.to_check.is_empty();
        let (changes, mut on_keys, all) = self.registry.try_find(|leases| {
            let changes = self.changes.take(many);
            let on_keys: Vec<_> = changes.keys.iter().flat_map(|key| leases.on(key)).collect();
            let many = changes.all || !changes.slots.is_empty();
            (changes, on_keys, many.then(|| leases.all()))
        })?;
        // In order of creation, which a simulation can repeat, and each lease once, whatever the number of its keys.
        on_keys.sort_unstable_by_key(|state| state.id);
        on_keys.dedup_by_key(|state| state.id);
        self.to_check.extend(on_keys.iter().map(Arc::downgrade));
        if let Some(mut leases) = all {
            // Rate limit: a node that reconnects or sends many notifications would otherwise trigger a check of every
            // lease at every node each time.
            self.all_from = now + ALL_AGAIN;
            let moved = |key: &String| changes.slots.contains(&slot(key));
            leases.retain(|state| changes.all || state.keys().first().is_some_and(moved));
            self.to_check.extend(leases.iter().map(Arc::downgrade));
        }
        Some(changes.closed)
    }

    /// Adds the events of new leases to the agenda. Returns when to look again, or `None` if another thread is inside
    /// the registry.
    fn plan(&mut self) -> Option<Instant> {
        let (new, most_ended, next) =
            self.registry.try_plan(self.clock.now(), self.first_event())?;
        for state in &new {
            // A deadline, and the first renewal if the lease is renewed. Both may already have passed if the round was
            // slow.
            if let Some(deadline) = state.deadline() {
                self.plan_deadline(state, deadline);
            }
            if let Some(ttl) = state.renewal() {
                let at = state.acquired + ttl / 3;
                self.due.insert((at, state.id), Arc::downgrade(state));
            }
        }
        // Leases with long TTLs may come and go by the thousand. An event keeps the memory of its lease.
        if most_ended || self.deadlines.len() + self.due.len() > STALE + 2 * self.left {
            self.deadlines.retain(|_, lease| lease.strong_count() > 0);
            self.due.retain(|_, lease| lease.strong_count() > 0);
            self.left = self.deadlines.len() + self.due.len();
        }
        Some(next)
    }

    fn first_event(&self) -> Instant {
        let first = |agenda: &Agenda| agenda.first_key_value().map_or(NEVER, |((at, _), _)| *at);
        first(&self.deadlines).min(first(&self.due))
    }

    /// Looks at each lease whose deadline has passed, which marks an expired one as lost.
    fn check_deadlines(&mut self) {
        let now = self.clock.now();
        while let Some(first) = self.deadlines.first_entry()
            && first.key().0 <= now
        {
            let Some(state) = first.remove().upgrade() else { continue };
            match state.deadline() {
                // It has moved, because the lease was extended.
                Some(deadline) => self.plan_deadline(&state, deadline),
                None => state.settle(),
            }
        }
    }

    /// Begins the renewals that are due or soon will be, and checks. Returns whether some are left for the next turn.
    fn begin_due(&mut self) -> bool {
        let now = self.clock.now();
        // The renewals that soon will be due are sent with the first one.
        let soon = self.due.first_key_value().is_some_and(|((at, _), _)| *at <= now);
        let until = if soon { now + TOGETHER } else { now };
        // Each kind has half of the turn, so that neither waits behind thousands of the other one.
        let (mut renewals_left, mut checks_left) = (true, true);
        for _ in 0..MAX_TURN_WORK / 2 {
            let due = self.due.first_entry().filter(|first| first.key().0 <= until);
            renewals_left = due.is_some();
            let renewal = due.and_then(|first| first.remove().upgrade()).map(renew);
            let to_check = self.to_check.pop_front();
            checks_left = to_check.is_some();
            let check = to_check.and_then(|state| state.upgrade()).and_then(check_if_idle);
            for work in renewal.into_iter().chain(check) {
                let work = self.in_turn(work);
                self.renewals.push(work);
            }
            if !renewals_left && !checks_left {
                break;
            }
        }
        renewals_left || checks_left
    }
}

/// Runs renewals and checks, and collects the finished ones. Ready if one has finished, or if the turn is over. Returns
/// whether it is over.
fn run_turn(
    renewals: &mut FuturesUnordered<InTurn>,
    turn: &AtomicUsize,
    finished: &mut Vec<NextEvent>,
    cx: &mut Context<'_>,
) -> Poll<bool> {
    turn.store(MAX_TURN_WORK, Ordering::Relaxed);
    // Renewals finish in batches. One turn of the loop for each would cost more than the renewal.
    while let Poll::Ready(Some(next)) = renewals.poll_next_unpin(cx) {
        finished.push(next);
    }
    let over = turn.load(Ordering::Relaxed) == 0;
    if over || !finished.is_empty() { Poll::Ready(over) } else { Poll::Pending }
}
