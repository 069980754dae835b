//! The steps of a run, generated from a seed and shrunk by leaving steps out.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use super::action::{Action, Step, Use};
use super::clock::{Rate, Time};
use super::generator::plain;
use super::semaphores::{LIMIT, POOL};
use super::world::MS;

/// The failures that a scenario may contain, which determine the promises that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Only failures under which mutual exclusion is guaranteed.
    Kept,
    /// An administrator deletes lock keys by hand.
    KeysAreDeleted,
    /// The same failures, but only the order of fencing tokens is checked.
    TokensDespiteDeletes,
    NodesAreFlushed,
    /// Nodes are flushed, but only if every lease survives it because enough other nodes have its keys.
    FlushesAreSurvived,
    /// An administrator deletes all keys of a lock by hand, and no other failure occurs. The lock must be free
    /// afterwards.
    ForceReleased,
    /// Nodes restart without their data and vote immediately.
    NoGuard,
    /// Nodes fail over to another server. The last writes survive, except over a quorum with a guard.
    ServersChange,
    /// Nodes are clusters whose slot moves between servers.
    SlotsMove,
    /// Nodes are clusters whose masters fail over without their last writes, over a quorum with a guard.
    ClustersFailOver,
    /// Servers fail over without their last writes, and every grant is on a replica that may be promoted.
    ReplicasConfirm,
    /// A single server fails over without its last writes.
    LastWritesAreLost,
}

impl Promise {
    /// Whether all promises apply.
    pub(super) fn is_all(self) -> bool {
        matches!(
            self,
            Self::Kept
                | Self::ServersChange
                | Self::ReplicasConfirm
                | Self::SlotsMove
                | Self::ClustersFailOver
        )
    }
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) promise: Promise,
    pub(super) guard: Duration,
    pub(super) fencing: bool,
    pub(super) latency: Time,
    /// Servers allow a client to kill its previous connection.
    pub(super) kills: bool,
    /// Faults that need no step, such as a script cache that is flushed.
    pub(super) faults: bool,
    /// How long a login lasts, if clients must log in.
    pub(super) login: Option<Duration>,
    /// The number of pending deletes and of unsent votes that a client keeps, if it is small.
    pub(super) kept: Option<usize>,
    pub(super) nodes: Vec<(i64, i64)>,
    /// Servers per node. A cluster has several.
    pub(super) shards: usize,
    /// Sentinels find the servers. Otherwise a promoted server takes over the address of its predecessor.
    pub(super) sentinels: bool,
    /// Replicas per node, and how many of them must have a grant.
    pub(super) replicas: (usize, u32),
    pub(super) clients: Vec<Rate>,
    pub(super) steps: Vec<Step>,
}

/// Age of the servers when a run begins. They are old enough to vote.
pub(super) const BEGIN: Time = 100_000 * MS;

impl Scenario {
    pub(super) fn from_seed(seed: u64, promise: Promise) -> Self {
        let mut rng = Rng::with_seed(seed);
        let pick = |rng: &mut Rng, from: &[u64]| from[rng.usize(..from.len())];
        let nodes = match promise {
            Promise::NoGuard | Promise::FlushesAreSurvived => pick(&mut rng, &[3, 5]),
            Promise::LastWritesAreLost => 1,
            Promise::ClustersFailOver => 3,
            Promise::ReplicasConfirm | Promise::SlotsMove => pick(&mut rng, &[1, 1, 1, 3]),
            _ => pick(&mut rng, &[1, 2, 3, 3, 3, 4, 5, 5]),
        };
        let steady = matches!(promise, Promise::FlushesAreSurvived | Promise::ForceReleased);
        let steady = steady || matches!(promise, Promise::ReplicasConfirm | Promise::SlotsMove);
        let fails_over = promise == Promise::ClustersFailOver;
        let amnesia =
            promise == Promise::NoGuard || fails_over || nodes > 1 && rng.bool() && !steady;
        let replicas = match promise {
            Promise::ReplicasConfirm => [(1, 1), (1, 1), (2, 1), (2, 2)][rng.usize(..4)],
            _ => (0, 0),
        };
        let fencing = promise == Promise::TokensDespiteDeletes || rng.u8(..3) == 0;
        let fencing = fencing && !fails_over;
        let guard = match (promise, amnesia, fencing) {
            (Promise::NoGuard, ..) | (_, false, _) => 0,
            // Across restarts, fencing tokens need node clocks that agree within the guard minus twice the slack.
            (_, true, true) => 12_000,
            (_, true, false) => 2_000,
        };
        let apart = if amnesia { 500_000 } else { 7_200_000_000 };
        let mut this = Self {
            seed,
            promise,
            guard: Duration::from_millis(guard),
            fencing,
            latency: pick(&mut rng, &[200_000, MS, 5 * MS, 40 * MS]),
            kills: rng.u8(..8) != 0,
            faults: true,
            login: (rng.u8(..8) == 0).then(|| Duration::from_millis(rng.u64(3000..8000))),
            kept: (rng.u8(..8) == 0).then(|| rng.usize(1..=4)),
            nodes: (0..nodes).map(|_| (rng.i64(-4900..=4900), rng.i64(-apart..=apart))).collect(),
            shards: match promise {
                Promise::SlotsMove | Promise::ClustersFailOver => rng.usize(2..=3),
                _ => 1,
            },
            sentinels: match promise {
                Promise::ServersChange => rng.bool(),
                _ => matches!(promise, Promise::ReplicasConfirm | Promise::LastWritesAreLost),
            },
            replicas,
            clients: (0..rng.usize(2..=5))
                .map(|_| Rate {
                    ppm: rng.i64(-4900..=4900),
                    wall_offset_us: rng.i64(-10_800_000_000..=10_800_000_000),
                })
                .collect(),
            steps: Vec::new(),
        };
        this.fill(&mut rng, amnesia);
        this.steps.iter_mut().for_each(|step| step.bound_hopeless(this.latency));
        this.add_min_holds(&mut Rng::with_seed(!seed));
        this.add_semaphores(&mut Rng::with_seed(seed.rotate_left(32)));
        this.add_sides(&mut Rng::with_seed(seed ^ 0x5ead));
        this.steps.sort_by_key(|step| step.at);
        if promise == Promise::ServersChange && amnesia || fails_over {
            this.fail_over_one_by_one();
        }
        this
    }

    /// Whether each client keeps all its pending deletes. One is kept for each list of names, and most steps use four
    /// such lists.
    pub(super) fn keeps_deletes(&self) -> bool {
        let crowds = |step: &Step| matches!(step.action, Action::Again { .. });
        let has_more = self.has_semaphore() || self.steps.iter().any(crowds);
        self.kept.is_none_or(|kept| kept >= 4 && !has_more)
    }

    /// One client acquires a lock repeatedly. Another client, which is farther from the nodes, must acquire it too.
    pub(super) fn repeated_acquires(seed: u64, nodes: usize) -> Self {
        let (hold, wait) = (5, Some(10_000));
        let steps = [
            (0, Action::Slow { client: 1, node: 0, by: 3, ms: 1_000_000 }),
            (1, Action::Again { client: 0, how: Use { hold, ..plain(1000) }, turns: 4000 }),
            (50, Action::Lock { client: 1, how: Use { wait, must: true, ..plain(1000) } }),
        ];
        Self::plain(seed, nodes, 200_000, steps.into())
    }

    /// A single client acquires a lock repeatedly with a wait of little more than one round, and succeeds every time.
    pub(super) fn short_waits(seed: u64, nodes: usize) -> Self {
        let first = Action::Lock { client: 0, how: plain(1000) };
        let how = Use { wait: Some(45), must: true, ..plain(1000) };
        let steps = [(0, first), (1000, Action::Again { client: 0, how, turns: 400 })];
        Self::plain(seed, nodes, 15 * MS, steps.into())
    }

    /// A single client is idle for long, and its connections drop all bytes meanwhile. It acquires a lock soon
    /// afterwards.
    pub(super) fn idle(seed: u64) -> Self {
        let how = Use { wait: Some(1300), must: true, ..plain(1000) };
        let steps = [
            (0, Action::Lock { client: 0, how: plain(1000) }),
            (5000, Action::Vanish { client: 0, node: 0 }),
            (13_000, Action::Lock { client: 0, how }),
        ];
        Self::plain(seed, 1, 15 * MS, steps.into())
    }

    /// Four clients on a slow network want all permits of a semaphore at the same moment, and most are nearest to
    /// different nodes. Their rounds divide the votes, and each vote that is taken back wakes the others.
    pub(super) fn colliding_callers(seed: u64) -> Self {
        let how = Use {
            names: vec![POOL],
            permits: LIMIT,
            wait: Some(6_000),
            hold: 50,
            must: true,
            ..plain(1000)
        };
        let pairs = (0..4).flat_map(|client| (0..3).map(move |node| (client, node)));
        let far = pairs.filter(|(client, node)| client % 3 != *node);
        let slow =
            far.map(|(client, node)| (0, Action::Slow { client, node, by: 20, ms: 100_000 }));
        let locks = (0..4).map(|client| (10, Action::Lock { client, how: how.clone() }));
        let mut this = Self::plain(seed, 3, 40 * MS, slow.chain(locks).collect());
        this.clients.resize(4, this.clients[0]);
        this
    }

    /// A scenario without failures other than these steps.
    pub(super) fn plain(
        seed: u64,
        nodes: usize,
        latency: Time,
        steps: Vec<(Time, Action)>,
    ) -> Self {
        let step = |(ms, action)| Step { at: BEGIN + ms * MS, action };
        Self {
            seed,
            promise: Promise::Kept,
            guard: Duration::ZERO,
            fencing: false,
            latency,
            kills: true,
            faults: false,
            login: None,
            kept: None,
            nodes: vec![(0, 0); nodes],
            shards: 1,
            sentinels: false,
            replicas: (0, 0),
            clients: vec![Rate { ppm: 0, wall_offset_us: 0 }; 2],
            steps: steps.into_iter().map(step).collect(),
        }
    }

    /// Removes what is not guaranteed where failovers lose writes (docs/operate/sentinel.md): a second failover before
    /// the guard of the first is over, and stored fencing tokens beyond all clocks.
    fn fail_over_one_by_one(&mut self) {
        let apart = Time::try_from(self.guard.mul_f64(1.01).as_nanos()).unwrap() + 4_100 * MS;
        let mut last = None;
        self.steps.retain(|step| match step.action {
            Action::WrongToken { stored, .. } => !stored,
            Action::Switch { .. } | Action::FailOver { .. } => {
                let good = last.is_none_or(|last| step.at >= last + apart);
                last = if good { Some(step.at) } else { last };
                good
            }
            _ => true,
        });
    }

    /// Returns the shortest schedule found that still breaks the same rule.
    pub(super) fn shrink(
        mut self,
        mut violation: String,
        fails: impl Fn(&Self) -> Option<String>,
    ) -> (Self, String) {
        let mut chunk = self.steps.len().max(1);
        while chunk > 0 {
            let mut start = 0;
            while start < self.steps.len() {
                let mut fewer = self.clone();
                fewer.steps.drain(start..(start + chunk).min(self.steps.len()));
                match fails(&fewer) {
                    Some(again) => (self, violation) = (fewer, again),
                    None => start += chunk,
                }
            }
            chunk /= 2;
        }
        (self, violation)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, clients) = (self.nodes.len(), self.clients.len());
        writeln!(
            f,
            "  {nodes} nodes of {} servers, sentinels {}, replicas {:?}, {clients} clients, guard {:?}, fencing {}, latency {:?}, kills {}, login {:?}, kept {:?}",
            self.shards,
            self.sentinels,
            self.replicas,
            self.guard,
            self.fencing,
            Duration::from_nanos(self.latency),
            self.kills,
            self.login,
            self.kept
        )?;
        for step in &self.steps {
            writeln!(f, "  {:>9.3} ms  {:?}", (step.at - BEGIN) as f64 / 1e6, step.action)?;
        }
        Ok(())
    }
}
