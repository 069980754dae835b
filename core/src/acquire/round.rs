//! Runs one round of an acquire: sends the requests, counts the votes, and grants the lease if a quorum voted for it in
//! time. Nodes that chose different fencing tokens are made to agree before that (`agree`).
//!
//! The caller ([`super::attempt`]) decides which node gets the first request and when to give up. Each round has a
//! separate token. A round that is not granted, or whose acquire is cancelled, deletes all of its votes. The deletes
//! wait for no reply. If a node cannot be reached, its delete stays pending until the node has confirmed it, so that no
//! key is left.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{Queue, Ticket};
use super::refusal::{Evidence, Refusal};
use crate::clock::{Clock, Instant};
use crate::drivers;
use crate::error::NodeState;
use crate::lease::{ExtendRound, Lease, LeaseState, Leases, Origin};
use crate::node::{
    Claim, Expect, Fault, Fencing, IMPOSSIBLE, MAX_KEYS, Places, Proof, Refused, ReleaseMode,
    Reply, Vote, VoteParams, WantedTurn,
};
use crate::options::lock::Request;
use crate::primitive::Preference;
use crate::quorum::{Collect, Nodes, Until, Validity};
use crate::telemetry::Throttle;

/// The shortest time to wait for nodes without a connection after a split vote: if another round may follow, and if
/// not. A busy machine delays a connection by as much.
const MIN_SPLIT_WAIT: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(100));

/// Waits for the connections that a single round needs, because its deadline begins with them. Returns why there are
/// none.
pub(crate) async fn connect(request: &Request, acquirer: &Acquirer) -> Result<(), Refusal> {
    let nodes = &acquirer.nodes;
    let connected = nodes.connect(&request.identity).await;
    connected.map_err(|votes| Refusal::of_faults(nodes, &votes, nodes.connect_timeout))
}

/// How a round runs.
pub(crate) struct RoundParams {
    /// When it began.
    pub(crate) now: Instant,
    /// When it ends. Each vote also has a timeout.
    pub(crate) until: Instant,
    /// What the nodes probably reply.
    pub(crate) expect: Expect,
    /// Whether it finds out if a quorum of nodes replies, even if failed nodes have already decided the vote.
    pub(crate) thorough: bool,
    /// Whether `wait` leaves less time for a reply than `node_timeout`.
    pub(crate) is_cut: bool,
    /// Whether another round may follow.
    pub(crate) may_repeat: bool,
    pub(crate) preference: Preference,
    /// That of the votes.
    pub(crate) turn: Option<WantedTurn>,
}

/// Runs one round under a new token.
pub(crate) fn round<'a>(
    request: &'a Arc<Request>,
    acquirer: &'a Acquirer,
    how: RoundParams,
) -> impl Future<Output = Result<Lease, Refusal>> + Send + use<'a> {
    let RoundParams { now, until, expect, thorough, is_cut, may_repeat, preference, turn } = how;
    let nodes = &acquirer.nodes;
    let changes = acquirer.leases.watch.count();
    // `wait` may end before the timeout of a vote.
    let timeout = request.node_timeout().min(until.since(now));
    let ttl = request.key_ttl();
    let fencing = request.fencing(&*nodes.clock);
    let params = VoteParams { ttl, timeout, first: true, check: false, expect, fencing, turn };
    // The scout takes an additional round trip, for which a short TTL over a slow network may leave no time.
    let scout_timeout = acquirer.leases.fairness.rounds().min(timeout);
    // Without this limit, every round of such an acquire would be too late, and it would never leave the queue.
    let scouts = expect == Expect::Contended
        && request.primitive.is_exclusive()
        && !thorough
        && nodes.list.len() > 1
        && scout_timeout * 4 <= ttl;
    let mut round = VoteRound::unsent(nodes, request.claim(&preference), params, now);
    round.votes.is_cut = is_cut;
    // The future has only what the rest needs, because it is a part of every acquire.
    async move {
        // Boxed, because it is rarely needed and would enlarge the future of every acquire.
        if scouts && let Some(refused) = Box::pin(round.scout(scout_timeout)).await {
            return Err(Refusal::Held { refused, evidence: Evidence::Scout });
        }
        while round.ask_next() {}
        let end = round.started + round.params.timeout;
        round.votes.until(Until::DecidedOrSplit, &*nodes.clock, end).await;
        if !round.votes.tally.decided() || (thorough && !round.votes.tally.met()) {
            // Boxed, because it is rarely needed and would enlarge the future of every acquire.
            Box::pin(round.wait_for_rest(thorough, may_repeat)).await;
        }
        record_outages(request, &round);
        if !round.votes.tally.met() {
            return Err(refused(request, &round));
        }
        let fencing = request.options.fencing;
        // Done before the validity is checked, because agreeing on a token may take another round trip.
        let fence = if fencing { Box::pin(agree(&mut round, until)).await } else { None };
        granted(request, acquirer, round, fence, changes)
    }
}

/// Records for the log which nodes failed and which voted.
fn record_outages(request: &Request, round: &VoteRound) {
    // A missing reply does not count as an outage if the round was cut short.
    let timeout = Some(round.params.timeout);
    let timeout =
        timeout.filter(|timeout| *timeout == request.node_timeout() && !round.votes.is_cut);
    round.nodes.record_outages(&round.votes, timeout, Some(Proof::Grant));
}

/// Returns the fencing token of a round that a quorum granted, or `None` if no quorum has stored it by `until`.
///
/// Each node computes its token by the rule in `node::fencing`, which `acquire.lua` and `extend.lua` implement on a
/// server. If the tokens differ, an extend sends the largest one to all nodes. Any two quorums share a node, so each
/// token is larger than that of every earlier lease.
///
/// Dropping the future leaves no key, because dropping the round sends its deletes after this extend.
async fn agree(round: &mut VoteRound, until: Instant) -> Option<u64> {
    let fence = |vote: &Vote| if let Vote::Granted(fence) = vote { *fence } else { None };
    let fences = round.votes.answers.iter().flatten().flatten().filter_map(fence);
    let (least, largest) = (fences.clone().min()?, fences.max()?);
    // The usual case: every node stores the same proposal, unless its clock differs too much or its last token is
    // larger.
    if least == largest {
        return Some(largest);
    }
    let (nodes, params) = (&round.nodes, round.params);
    // Only for the request of this extend. The validity of the lease counts from its first round, which began earlier.
    let validity = Validity::new(nodes.clock.now(), params.ttl, None);
    let params = VoteParams::later(params.ttl, params.timeout, Fencing::AtLeast(largest));
    let mut extend = ExtendRound::send(Arc::clone(nodes), &round.claim, validity, params);
    let confirmed = extend.is_confirmed(&*nodes.clock, until).await;
    confirmed.then_some(largest)
}

/// Creates the lease that a quorum granted, if its fencing token is final and time is left. `changes` is the number of
/// changes before the round.
fn granted(
    request: &Arc<Request>,
    acquirer: &Acquirer,
    mut round: VoteRound,
    fence: Option<u64>,
    changes: u64,
) -> Result<Lease, Refusal> {
    let leases = &acquirer.leases;
    let now = leases.clock.now();
    let (validity, took) = (request.validity(round.started), now.since(round.started));
    // A grant without remaining time is not returned.
    if now >= validity.ends() {
        let nodes = acquirer.nodes.report(&round.votes, round.params.timeout);
        return Err(Refusal::Late(took, nodes));
    }
    let lacks_fence = request.options.fencing && fence.is_none();
    if lacks_fence || !still_met(request, &round) {
        // No other client is known to have the keys, so the next round may be granted.
        return Err(Refusal::Split);
    }
    // From here on nothing is rolled back and nothing is awaited, so the lease exists before a caller can drop this
    // future.
    let votes = round.keep_votes().unanswered();
    leases.fairness.took(took);
    let origin = Origin { claim: round.claim.clone(), fence, attached: false };
    let state = LeaseState::new(request, origin, validity, votes, leases, &acquirer.nodes);
    leases.watch.check_new(changes, state.keys());
    Ok(Lease::new(state))
}

/// Whether a quorum remains without the servers that were replaced during the round. Such a server may have granted
/// after the holder of the lock extended its lease at the next one.
fn still_met(request: &Request, round: &VoteRound) -> bool {
    let nodes = &round.nodes.list;
    // A single node has no guard by default, and may lose leases at a failover anyway.
    if nodes.len() == 1 {
        return true;
    }
    let key = request.identity.first().map_or("", String::as_str);
    let granted = |answer: &Option<Result<Vote, _>>| matches!(answer, Some(Ok(Vote::Granted(_))));
    let votes = nodes.iter().zip(&round.votes.answers).filter(|(_, answer)| granted(answer));
    let counted = votes.filter(|(node, _)| node.still_counts(key, round.started)).count();
    counted >= round.votes.tally.quorum()
}

/// Checks first whether too many nodes failed. The result is "held" only if enough nodes work for a quorum.
fn refused(request: &Request, round: &VoteRound) -> Refusal {
    if round.votes.tally.unavailable() {
        Refusal::of_faults(&round.nodes, &round.votes, round.params.timeout)
    } else {
        Refusal::of_votes(&round.votes, request)
    }
}

/// A round under way. If it ends without a grant, or is dropped, it sends deletes that remove all of its votes.
pub(crate) struct VoteRound {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) claim: Claim,
    pub(crate) params: VoteParams,
    /// Taken before the first byte was sent.
    pub(crate) started: Instant,
    pub(crate) votes: Collect<Vote>,
    /// Whether the votes belong to a lease. Dropping the round then deletes nothing.
    kept: bool,
    /// Counts the round until its deletes are sent.
    _under_way: Arc<()>,
}

impl VoteRound {
    /// Sends the request to the scout, the first node with a connection that replies within `scout_timeout`. If another
    /// client holds keys there, returns for how long, and which ones. Otherwise the other nodes must be asked now. One
    /// node thus decides between contenders that would otherwise split the votes.
    ///
    /// The scout does not change which votes make a lease. For its effect see `bench/waits.py contend`.
    async fn scout(&mut self, scout_timeout: Duration) -> Option<Box<Refused>> {
        let nodes = Arc::clone(&self.nodes);
        let keys = Arc::clone(&self.claim.keys);
        let key = keys.first().map_or("", String::as_str);
        while !self.votes.tally.decided() && self.ask_next() {
            // All clients skip a node that hangs, so that they still have the same scout.
            let asked = self.votes.answers.len() - 1;
            if !nodes.list[asked].votes_soon(key, self.params.timeout) {
                continue;
            }
            // One deadline for all scouts. With one each, several silent scouts could exceed the `wait` of the acquire.
            let until = (nodes.clock.now() + scout_timeout).min(self.started + self.params.timeout);
            self.votes.until(Until::Last, &*nodes.clock, until).await;
            match self.votes.answers.last() {
                Some(Some(Ok(Vote::Held(refused)))) => return Some(refused.clone()),
                // An error decides nothing, so the next node is the scout.
                Some(Some(Err(_))) => {}
                // Granted, or too slow to wait for it alone.
                _ => break,
            }
        }
        None
    }

    /// Waits for the rest of the nodes after a split vote. If it is `thorough`, also waits until it is certain whether
    /// a quorum replies.
    ///
    /// Until a round ends, its votes block the others. If none of the rest votes soon, it only waits for about as long
    /// as the others took. A node that hangs, or whose replica is down, would make each client wait for the whole
    /// `node_timeout`. The next clients would split the votes again, and none would acquire the lock. A node with a
    /// connection may be slow. If another one has a key that was left behind, no client could acquire the lock without
    /// it.
    async fn wait_for_rest(&mut self, thorough: bool, may_repeat: bool) {
        let (nodes, end) = (Arc::clone(&self.nodes), self.started + self.params.timeout);
        let clock = &*nodes.clock;
        if !self.votes.tally.decided() {
            let now = clock.now();
            let least = if may_repeat { MIN_SPLIT_WAIT.0 } else { MIN_SPLIT_WAIT.1 };
            let soon = now + now.since(self.started).max(least);
            if soon < end && !self.waits_for_soon() {
                self.votes.is_cut = true;
                self.votes.until(Until::Decided, clock, soon).await;
            } else {
                self.votes.until(Until::Decided, clock, end).await;
            }
        }
        if thorough && !self.votes.tally.met() {
            self.votes.until(Until::Answered, clock, end).await;
        }
    }

    /// Whether a node that is expected to vote soon has not replied yet.
    fn waits_for_soon(&self) -> bool {
        let key = self.claim.keys.first().map_or("", String::as_str);
        let timeout = self.params.timeout;
        let asked = self.nodes.list.iter().zip(&self.votes.answers);
        asked.into_iter().any(|(node, answer)| answer.is_none() && node.votes_soon(key, timeout))
    }

    /// A round that has sent nothing yet. `started` is not later than its first request, so that no node ends its TTL
    /// before the lease ends.
    fn unsent(nodes: &Arc<Nodes>, claim: Claim, params: VoteParams, started: Instant) -> Self {
        let votes = Collect::for_nodes(nodes.list.len(), |vote| match vote {
            Vote::Granted(_) => NodeState::Granted,
            Vote::Held(..) => NodeState::Held,
        });
        let (nodes, rounds) = (Arc::clone(nodes), Arc::clone(&nodes.rounds));
        Self { nodes, claim, params, started, votes, kept: false, _under_way: rounds }
    }

    /// Sends the request to the next node. Uses the order of the list, because the position identifies a reply.
    fn ask_next(&mut self) -> bool {
        let Some(node) = self.nodes.list.get(self.votes.answers.len()) else { return false };
        self.votes.add(believable(node.acquire(&self.claim, self.params), self.params.fencing));
        true
    }

    /// Makes the votes part of a lease, including those that are under way or not sent yet.
    ///
    /// None of them is deleted before the lease ends. A late delete could remove a key that an extend has counted
    /// since.
    pub(crate) fn keep_votes(&mut self) -> Collect<Vote> {
        self.kept = true;
        // The empty collection has no replies to stop on drop.
        std::mem::replace(&mut self.votes, Collect::for_nodes(0, |_| NodeState::Granted))
    }
}

/// Turns a fencing token that the rule cannot produce into an error of that node, so that no later token builds on it.
///
/// Without fencing it returns the vote unchanged and allocates nothing.
fn believable(vote: Reply<Vote>, fencing: Fencing) -> Reply<Vote> {
    if fencing == Fencing::Off {
        return vote;
    }
    Box::pin(async move {
        match vote.await? {
            Vote::Granted(Some(fence)) if !fencing.can_be(fence) => Err(Fault::new(IMPOSSIBLE)),
            vote => Ok(vote),
        }
    })
}

impl Drop for VoteRound {
    fn drop(&mut self) {
        // An acquire whose reply is still awaited may be sent again after a script reload. Its delete must be last, so
        // the round stops listening first.
        self.votes.stop_listening();
        if self.kept {
            return;
        }
        for (node, vote) in self.nodes.list.iter().zip(&self.votes.answers) {
            // An error or a missing reply may hide a grant. A clean refusal cannot.
            if !matches!(vote, Some(Ok(Vote::Held(..)))) {
                // The call sends the delete without waiting for a reply. If it cannot be sent now, it stays a pending
                // delete.
                let VoteParams { ttl, timeout, .. } = self.params;
                drop(node.release(&self.claim, ttl, ReleaseMode::Undo, timeout));
            }
        }
        drivers::flush();
    }
}

/// The state that all acquires of a client in this process share.
pub(crate) struct Acquirer {
    pub(crate) leases: Arc<Leases>,
    pub(crate) nodes: Arc<Nodes>,
    /// The local queue of callers. Shared, because each caller's ticket refers to it.
    pub(super) queue: Arc<Queue>,
    /// Limits the log records about grants that came too late.
    pub(super) late: Throttle,
    /// A random number, so that the first callers of different clients prefer different permits.
    spread: usize,
}

impl Acquirer {
    pub(crate) fn new(leases: Arc<Leases>, nodes: Arc<Nodes>) -> Self {
        let spread = fastrand::usize(..MAX_KEYS);
        Self { leases, nodes, queue: Arc::default(), late: Throttle::default(), spread }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.leases.clock
    }

    /// Returns which places the next round of this caller should claim. `refusal` is that of its last round.
    pub(super) fn preference(
        &self,
        request: &Request,
        ticket: &Ticket,
        refusal: Option<&Refusal>,
    ) -> Preference {
        if request.primitive.is_exclusive() {
            return Preference::default();
        }
        let places = request.primitive.places(&request.identity);
        let own = || [Places::default(), self.leases.registry.held(places).collect()];
        let [busy, closed] = refusal.map_or_else(own, Refusal::busy);
        Preference { busy, closed, first: ticket.number().wrapping_add(self.spread) }
    }

    pub(crate) fn callers(&self) -> usize {
        self.queue.callers()
    }
}
