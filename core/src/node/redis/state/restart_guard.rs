//! Keeps a server that restarted, or replaced another one, from votes that contradict those of its predecessor.
//!
//! Such a server may have lost leases that are still held. It takes no first vote until they have ended: after the
//! client's `restart_guard`, which no TTL exceeds. A server that replaced another one also extends no lease until every
//! client has left the other one, and its guard begins then. [`RestartGuard`] decides this at each connect
//! ([`RestartGuard::opened`]) and for the slots of a cluster that move ([`RestartGuard::guard_slots`]), and says why a
//! vote does not count.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::Instant;
use crate::node::{Fault, Guarded};
use crate::runtime::lock;

/// The time after which every client has noticed a failover and left the old primary, which may have granted locks
/// until then. Sentinels are polled every second and send an event earlier. In a cluster, a partitioned master stops
/// serving at about the time of the election.
pub(crate) const FAILOVER_NOTICE_TIME: Duration = Duration::from_secs(2);
/// A server reports its uptime in whole seconds, rounded down.
const ROUNDING: Duration = Duration::from_secs(1);

/// Returns how long a server takes no first vote after it may have lost data.
pub(crate) fn guard_time(guard: Duration) -> Duration {
    // The clocks of lease holders may be up to 1 % slower than ours, as in the drift of a lease.
    guard.mul_f64(1.01)
}

/// Returns how long a server with this uptime takes no first vote.
pub(crate) fn wait_of(uptime: Duration, guard: Duration) -> Duration {
    (guard_time(guard) + ROUNDING).saturating_sub(uptime)
}

/// When a server takes first votes.
#[derive(Clone, Copy, Default)]
enum VotesFrom {
    /// Immediately, because the guard is off or no server is known.
    #[default]
    Now,
    /// The server restarted, and may have lost leases.
    At(Instant),
    /// Never, because its age cannot be read.
    Never,
}

/// A hash slot that another server had before.
#[derive(Clone, Copy)]
pub(crate) struct MovedSlot {
    /// When the server may extend leases in the slot. Until then, some clients may still use the previous server, which
    /// grants the lock when the lease has expired there.
    extends_from: Instant,
    /// When the server takes first votes in the slot. Until then it may lack the last grants of the previous server.
    votes_from: Instant,
}

impl MovedSlot {
    /// A slot that moves now.
    pub(crate) fn at(now: Instant, guard: Duration) -> Self {
        let extends_from = now + FAILOVER_NOTICE_TIME;
        Self { extends_from, votes_from: extends_from + guard_time(guard) }
    }
}

/// From when the server of a node votes.
#[derive(Default)]
pub(crate) struct RestartGuard(Mutex<GuardState>);

#[derive(Default)]
struct GuardState {
    /// When the server takes first votes.
    votes_from: VotesFrom,
    /// When the server may extend leases, if it replaced another one.
    extends_from: Option<Instant>,
    /// The hash slots that another server had before.
    moved_slots: HashMap<u16, MovedSlot>,
    /// The run ID of the last server that may have taken first votes, if it reported one. `None` before the first one.
    run_id: Option<Option<String>>,
    /// The time before which a server that replaced another one takes no first vote.
    not_before: Option<Instant>,
    /// When the last connection ended.
    lost_at: Option<Instant>,
}

impl GuardState {
    fn moved_slot(&self, slot: impl FnOnce() -> Option<u16>) -> Option<MovedSlot> {
        // Almost always empty, and the slot is then not computed.
        if self.moved_slots.is_empty() { None } else { self.moved_slots.get(&slot()?).copied() }
    }

    /// Records the server of a new connection, and returns the previous run ID.
    fn opened(
        &mut self,
        server: &Greeted<'_>,
        run_id: Option<String>,
        guard: Duration,
        now: Instant,
    ) -> Option<String> {
        let mut previous = None;
        if let Some(age) = server.primary_for {
            // Without a previous server, this client cannot detect a promoted replica. The sentinels can.
            let old = now + (guard_time(guard) + FAILOVER_NOTICE_TIME).saturating_sub(age);
            self.not_before = self.not_before.max(Some(old));
            let young = FAILOVER_NOTICE_TIME.saturating_sub(age);
            // The primary of a new connection is not a new primary.
            if !young.is_zero() {
                self.extends_from = self.extends_from.max(Some(now + young));
            }
        }
        if server.run_id.is_some() || server.votes_in.is_some() {
            let restart = server.votes_in.is_some_and(|wait| self.restarted(wait, guard, now));
            previous = self.enter(run_id, restart, guard, now);
        } else if self.run_id.is_some() {
            // It takes no first vote, but it may have replaced the previous server.
            self.extends_from = self.extends_from.max(Some(now + FAILOVER_NOTICE_TIME));
        }
        // An unknown age may be zero, after a restart.
        self.votes_from = server.votes_in.map_or(VotesFrom::Never, |wait| {
            let from = now + wait;
            VotesFrom::At(self.not_before.map_or(from, |at| at.max(from)))
        });
        previous
    }

    /// Records which server may take first votes from now on. If it may be another one than before, it takes none for
    /// the time of the guard. Returns the run ID of the previous one.
    ///
    /// Unless it is a `restart`, the previous server may still run.
    fn enter(
        &mut self,
        run_id: Option<String>,
        restart: bool,
        guard: Duration,
        now: Instant,
    ) -> Option<String> {
        let known = self.run_id.replace(run_id);
        // A promoted replica may lack data of its predecessor, regardless of its age. Without a run ID, it may be
        // another server.
        if known.as_ref().is_some_and(|id| id.is_none() || Some(id) != self.run_id.as_ref()) {
            let mut votes_from = now + guard_time(guard);
            if !restart {
                // Until every client has left it, the previous server grants locks.
                votes_from = votes_from + FAILOVER_NOTICE_TIME;
                self.extends_from = self.extends_from.max(Some(now + FAILOVER_NOTICE_TIME));
            }
            self.not_before = self.not_before.max(Some(votes_from));
        }
        known.flatten()
    }

    /// Whether a server that is old enough for first votes in this time started after the last connection ended.
    fn restarted(&self, votes_in: Duration, guard: Duration, now: Instant) -> bool {
        let gap = self.lost_at.map_or(Duration::ZERO, |at| now.since(at));
        // Of an older server, the exact uptime is not known.
        !votes_in.is_zero() && (guard_time(guard) + ROUNDING).saturating_sub(votes_in) <= gap
    }
}

impl RestartGuard {
    /// Returns whether and for how long the server takes no first vote. `slot` is that of the vote's keys.
    pub(crate) fn guarded(
        &self,
        slot: impl FnOnce() -> Option<u16>,
        now: impl FnOnce() -> Instant,
    ) -> Option<Guarded> {
        let (votes_from, not_before) = {
            let state = self.state();
            (state.votes_from, state.moved_slot(slot).map(|slot| slot.votes_from))
        };
        let left = match votes_from {
            VotesFrom::Now => not_before?.since(now()),
            VotesFrom::Never => return Some(Guarded { left: None }),
            VotesFrom::At(from) => not_before.map_or(from, |at| at.max(from)).since(now()),
        };
        (!left.is_zero()).then_some(Guarded { left: Some(left) })
    }

    /// Returns why the server currently takes no first vote, if so.
    pub(crate) fn vote_fault(
        &self,
        slot: impl FnOnce() -> Option<u16>,
        now: impl FnOnce() -> Instant,
    ) -> Option<Fault> {
        self.guarded(slot, now).map(Guarded::fault)
    }

    /// Returns why an extension that was sent at `asked` does not confirm a lease, if so.
    ///
    /// Clients learn at different times that a server was replaced. Until all have, the node acts as two: the previous
    /// server may grant the lock to a client that still uses it, while a holder extends its lease at the new one. Two
    /// such replies can complete two quorums.
    pub(crate) fn extend_fault(
        &self,
        slot: impl FnOnce() -> Option<u16>,
        asked: Instant,
    ) -> Option<Fault> {
        let from = {
            let state = self.state();
            state.moved_slot(slot).map(|slot| slot.extends_from).max(state.extends_from)
        };
        let left = from?.since(asked);
        (!left.is_zero()).then(|| {
            let left = left.as_secs_f64();
            Fault::new(format!(
                "it replaced another server, which some clients may still use, and extends leases in {left:.1} s"
            ))
            .declined()
        })
    }

    /// Guards slots that moved from another server.
    pub(crate) fn guard_slots(
        &self,
        slots: impl Iterator<Item = u16>,
        now: Instant,
        moved: MovedSlot,
    ) {
        let known = &mut self.state().moved_slots;
        known.retain(|_, slot| slot.votes_from > now);
        known.extend(slots.map(|slot| (slot, moved)));
    }

    /// Records the server of a new connection, before it gets any command. It takes first votes when it is old enough
    /// by its own report and by ours.
    pub(crate) fn opened(&self, server: &Greeted<'_>, guard: Duration, now: Instant) {
        if !guard.is_zero() {
            let run_id = server.run_id.cloned();
            // Freed without the mutex, for which callers may wait.
            let _previous = self.state().opened(server, run_id, guard, now);
        }
    }

    /// Records that the connection ended.
    pub(crate) fn lost(&self, now: Instant) {
        self.state().lost_at = Some(now);
    }

    fn state(&self) -> MutexGuard<'_, GuardState> {
        lock(&self.0)
    }
}

/// What is known about a server at a new connection.
pub(crate) struct Greeted<'a> {
    pub(crate) run_id: Option<&'a String>,
    /// How long it takes no first vote, by its uptime. `None` if the uptime cannot be read.
    pub(crate) votes_in: Option<Duration>,
    /// How long it has been the primary of its service, if sentinels tell.
    pub(crate) primary_for: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use crate::node::redis::state::restart_guard::*;

    const GUARD: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Instant {
        Instant::from_start(Duration::from_secs(seconds))
    }

    /// One node, which connects to servers at times in seconds.
    struct Node {
        guard: RestartGuard,
        time: Duration,
    }

    impl Node {
        fn new() -> Self {
            Self { guard: RestartGuard::default(), time: GUARD }
        }

        fn connect(&mut self, run_id: &str, uptime: u64, now: u64) {
            self.greet(Some(run_id), Some(uptime), None, now);
        }

        fn greet(
            &mut self,
            run_id: Option<&str>,
            uptime: Option<u64>,
            primary_for: Option<u64>,
            now: u64,
        ) {
            let run_id = run_id.map(str::to_owned);
            let server = Greeted {
                run_id: run_id.as_ref(),
                votes_in: uptime.map(|uptime| wait_of(Duration::from_secs(uptime), self.time)),
                primary_for: primary_for.map(Duration::from_secs),
            };
            self.guard.opened(&server, self.time, at(now));
        }

        /// The first second in which it takes first votes.
        fn votes_from(&self) -> Option<u64> {
            (0..5000).find(|now| self.guard.vote_fault(|| Some(1), || at(*now)).is_none())
        }

        /// The first second in which it extends leases.
        fn extends_from(&self) -> Option<u64> {
            (0..5000).find(|asked| self.guard.extend_fault(|| Some(1), at(*asked)).is_none())
        }
    }

    #[test]
    fn server_votes_when_it_is_older_than_the_guard() {
        for (uptime, votes_from) in [(0, 162), (1, 161), (61, 101), (62, 100)] {
            let mut node = Node::new();
            node.connect("one", uptime, 100);
            assert_eq!(node.votes_from().map(|from| from.max(100)), Some(votes_from));
            assert_eq!(node.extends_from(), Some(0));
        }
    }

    #[test]
    fn replaced_server_votes_after_the_guard_and_extends_after_the_notice_time() {
        for run_ids in [[Some("one"), Some("two")], [None, None]] {
            let mut node = Node::new();
            node.greet(run_ids[0], Some(1000), None, 100);
            node.guard.lost(at(199));
            node.greet(run_ids[1], Some(1000), None, 300);
            assert_eq!((node.votes_from(), node.extends_from()), (Some(363), Some(302)));
        }
    }

    #[test]
    fn same_server_again_is_not_guarded_again() {
        let mut node = Node::new();
        node.connect("one", 1000, 100);
        node.connect("two", 1000, 200);
        node.connect("two", 1010, 210);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(263), Some(202)));
        // Its name cannot be read. It takes no vote, and may be another server.
        node.greet(None, None, None, 220);
        assert_eq!((node.votes_from(), node.extends_from()), (None, Some(222)));
        node.connect("two", 1030, 230);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(263), Some(222)));
    }

    #[test]
    fn restarted_server_votes_after_the_guard_and_extends_immediately() {
        let mut node = Node::new();
        node.connect("one", 1000, 100);
        node.guard.lost(at(200));
        node.connect("two", 1, 205);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(266), Some(0)));
        // It started before the connection ended, so it is not a restart of the first one.
        node.guard.lost(at(300));
        node.connect("three", 10, 305);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(368), Some(307)));
    }

    #[test]
    fn new_primary_votes_after_the_guard_and_extends_after_the_notice_time() {
        let mut node = Node::new();
        node.greet(Some("one"), Some(1000), Some(1), 100);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(162), Some(101)));
        let mut node = Node::new();
        node.greet(Some("one"), Some(1000), Some(63), 100);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(100), Some(0)));
    }

    #[test]
    fn server_of_unknown_age_takes_no_first_vote() {
        let mut node = Node::new();
        node.greet(Some("one"), None, None, 100);
        assert_eq!((node.votes_from(), node.extends_from()), (None, Some(0)));
    }

    #[test]
    fn without_a_guard_every_server_votes_and_extends() {
        let mut node = Node { time: Duration::ZERO, ..Node::new() };
        node.greet(Some("one"), None, Some(0), 100);
        node.connect("two", 0, 200);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(0), Some(0)));
    }

    #[test]
    fn moved_slots_are_guarded_until_every_client_has_left_the_previous_server() {
        let mut node = Node::new();
        node.connect("one", 1000, 100);
        node.guard.guard_slots([1].into_iter(), at(200), MovedSlot::at(at(200), GUARD));
        assert_eq!((node.votes_from(), node.extends_from()), (Some(263), Some(202)));
        assert!(node.guard.vote_fault(|| Some(2), || at(200)).is_none());
        assert!(node.guard.extend_fault(|| Some(2), at(200)).is_none());
        // A restart of the server does not end this earlier.
        node.guard.lost(at(210));
        node.connect("two", 1000, 210);
        assert_eq!((node.votes_from(), node.extends_from()), (Some(273), Some(212)));
    }
}
