//! Reports the holder of a key, according to each node, and deletes the keys of any holder.
//!
//! An inspection changes nothing on a node and does not affect acquires.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};

use crate::error::{NodeState, Result};
use crate::node::{
    Claim, Fault, Holder, KEPT_PREFIX, Label, MAX_INSPECTED, Node, ReleaseMode, Remedy, Reply,
    SHARED_PREFIX, Watch,
};
use crate::options::lock::Request;
use crate::primitive::Primitive;
use crate::quorum::{Collect, Nodes, Until};
use crate::text::{escaped, shown};

/// How long the forced release of a key without a TTL is repeated if no server confirms it. Such a key never expires.
const UNLIMITED_KEY_RETRIES: Duration = Duration::from_secs(600);

/// A snapshot of a lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let lease = client.lock("job").acquire().await?;
/// let found = client.lock("job").inspect().await?;
/// assert!(found.held && found.remaining.is_some());
/// assert_eq!((found.nodes[0].state, found.nodes[0].key.as_str()), (redlock::NodeState::Held, "lock:job"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// Whether one owner has a key on a quorum of nodes. For a [semaphore](crate::Redlock::semaphore), whether no
    /// permit is free.
    pub held: bool,
    /// Which side holds a [read/write lock](crate::Redlock::rwlock): `"read"` or `"write"`. `None` if it is free. Any
    /// lock on the same name shows `"read"`.
    pub mode: Option<&'static str>,
    /// How many permits of a semaphore are not free. For a lock, how many of its keys.
    pub taken: usize,
    /// How many permits the semaphore has. For a lock, how many keys.
    pub limit: usize,
    /// The remaining time of the lock. `None` if it is free or has no known end.
    ///
    /// A quorum is free after this time, unless the lease is renewed. For several keys it is the longest time. If
    /// `held` is false, it is how long the key stays because of `min_hold`. The lock cannot be acquired until then. For
    /// a semaphore it is the shortest time, if no permit is free.
    pub remaining: Option<Duration>,
    /// The [label](crate::Lock::label) of the owner that has a key on a quorum of nodes, if it has one. For several
    /// keys it is the first label.
    pub label: Option<String>,
    /// The reply of each node for each key, ordered by key and then as the nodes of the client.
    pub nodes: Vec<NodeInspection>,
}

/// The reply of one node for one key. A semaphore has a key for each permit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeInspection {
    /// The URL of the node, without its password.
    pub url: String,
    /// The Redis key.
    pub key: String,
    /// `Free`, `Held`, `Kept` or `Fault`.
    pub state: NodeState,
    /// The remaining time. `None` if the key is free, if the node failed, or if the end is unknown.
    pub remaining: Option<Duration>,
    /// The first 8 digits of the owner's token. If `state` is `Kept`, the token is that of the previous owner. `None`
    /// if readers share the key, or if it has data of another type.
    ///
    /// This is enough to tell two owners apart, but not enough to release the lock.
    pub token: Option<String>,
    /// The [label](crate::Lock::label) of the owner, if it has one. If `state` is `Kept`, that of the previous owner.
    pub label: Option<String>,
    /// The error text of the node, or why it grants no new lease yet (`restart_guard`).
    pub error: Option<String>,
}

/// Inspects the keys on all nodes.
///
/// `Err` if so few nodes replied for a key that its state is unknown.
pub(crate) async fn inspection(nodes: &Nodes, request: &Request) -> Result<Inspection> {
    request.connect(nodes).await?;
    let (clock, timeout) = (&*nodes.clock, request.node_timeout());
    let deadline = clock.now() + timeout;
    let is_whole = request.primitive.is_whole();
    let ask = |key: &String| {
        let replies = nodes.list.iter().map(|node| {
            let reply = node.inspect(key, timeout);
            if is_whole { reply } else { Box::pin(reply.map(|answer| answer.or_else(foreign))) }
        });
        (
            key.clone(),
            Collect::new(replies, |holder: &Option<Holder>| match holder {
                Some(_) => NodeState::Granted,
                None => NodeState::Free,
            }),
        )
    };
    let places = request.primitive.places(&request.identity);
    let (mut holders, mut replies) = (Vec::new(), Vec::new());
    // Requests for all keys are sent before the first reply is awaited.
    for (key, mut votes) in places.iter().map(ask).collect::<Vec<_>>() {
        // Waits for every node, because the result includes each reply and not only that of a quorum.
        votes.until(Until::Complete, clock, deadline).await;
        // With fewer replies than a quorum, it is unknown whether the lock is held.
        if votes.answers.iter().flatten().flatten().count() < votes.tally.quorum() {
            votes.count_silence();
            return Err(request.no_quorum(nodes, &votes, timeout));
        }
        holders.extend(quorums_holder(&votes));
        let answers = nodes.list.iter().zip(votes.answers);
        replies.extend(answers.map(|(node, answer)| word(node, &key, answer)));
    }
    Ok(summary(&holders, places.len(), &request.primitive, replies))
}

/// Turns the error for a permit with data of another type into an unknown owner, because such a permit is taken. A
/// server declines an inspection as unsupported for no other reason.
fn foreign(fault: Fault) -> Result<Option<Holder>, Fault> {
    let has_other_type = fault.is_declined() && fault.remedy() == Remedy::Unsupported;
    if !has_other_type {
        return Err(fault);
    }
    Ok(Some(Holder { token: String::new(), remaining: None }))
}

/// Summarizes the holders of the keys. Except for permits, they belong to one owner.
fn summary(
    holders: &[Holder],
    limit: usize,
    primitive: &Primitive,
    nodes: Vec<NodeInspection>,
) -> Inspection {
    let mut owners = holders.iter().filter(|holder| !holder.token.starts_with(KEPT_PREFIX));
    let label = owners.clone().find_map(|holder| label_of(&holder.token));
    // A key without a known end lasts longest.
    let ends = holders.iter().map(|holder| holder.remaining.unwrap_or(Duration::MAX));
    let taken = holders.len();
    let (held, end) = if primitive.is_whole() {
        (owners.next().is_some(), ends.max())
    } else {
        (taken == limit, ends.min().filter(|_| taken == limit))
    };
    let remaining = end.filter(|end| *end < Duration::MAX);
    let has_sides = matches!(primitive, Primitive::ReadWrite(_));
    let mode = match holders.first() {
        Some(holder) if is_shared(holder) => Some("read"),
        Some(_) if has_sides && held => Some("write"),
        _ => None,
    };
    Inspection { held, mode, taken, limit, remaining, label, nodes }
}

/// Deletes the keys regardless of their owner. Returns true if at least one existed.
///
/// Every reply counts as granted, because a quorum without the key is all that matters. Waits for every node, because a
/// node gets its deletes only after its replies.
pub(crate) async fn force_release(
    nodes: &Nodes,
    request: &Request,
    watch: &Arc<Watch>,
) -> Result<bool> {
    request.connect(nodes).await?;
    let timeout = request.node_timeout();
    let deadline = nodes.clock.now() + timeout;
    let keys: Arc<[String]> = request.primitive.places(&request.identity).into();
    let replies = nodes.list.iter().map(|node| delete_any(node, &keys, watch, timeout));
    let mut votes = Collect::new(replies, |_| NodeState::Granted);
    votes.until(Until::Complete, &*nodes.clock, deadline).await;
    if !votes.tally.met() {
        votes.count_silence();
        return Err(request.no_quorum(nodes, &votes, timeout));
    }
    Ok(votes.answers.iter().flatten().flatten().any(|deleted| *deleted))
}

/// Reads each key's owner and deletes the keys of these owners. Returns true if there was one.
///
/// A delete names the owner that was read. However late it arrives, it deletes no lock of another owner.
fn delete_any(
    node: &Arc<dyn Node>,
    keys: &Arc<[String]>,
    watch: &Arc<Watch>,
    timeout: Duration,
) -> Reply<bool> {
    let (node, keys, watch) = (Arc::clone(node), Arc::clone(keys), Arc::clone(watch));
    let holders = join_all(keys.iter().map(|key| node.inspect(key, timeout)));
    Box::pin(async move {
        let mut claims = Vec::new();
        for (key, holder) in keys.iter().zip(holders.await) {
            // The error of one key alone names it already.
            let named =
                |fault: Fault| if keys.len() > 1 { fault.with_origin(&shown(key)) } else { fault };
            let Some(Holder { token, remaining }) = holder.map_err(named)? else { continue };
            if token.len() >= MAX_INSPECTED || token.contains(char::REPLACEMENT_CHARACTER) {
                return Err(named(Fault::unsupported(
                    "the key has a value that is not a token, so it is not a lock. Delete it manually",
                )));
            }
            let claim = Claim::of_owner(token.into(), [key.clone()].into());
            claims.push((claim, remaining.unwrap_or(UNLIMITED_KEY_RETRIES)));
        }
        // Sent only if every key can be deleted on this node.
        let delete = |(claim, left): &(Claim, Duration)| {
            node.release(claim, *left, ReleaseMode::Delete, timeout)
        };
        let deletes: Vec<_> = claims.iter().map(delete).collect();
        // A node does not notify the client that deletes. Commands that are sent now follow the deletes.
        watch.changed_keys(&keys);
        let there = !deletes.is_empty();
        join_all(deletes).await.into_iter().try_for_each(|deleted| deleted.map(drop))?;
        Ok(there)
    })
}

/// Returns the label in the value of a key, if it has one.
fn label_of(token: &str) -> Option<String> {
    Label::of_token(token).map(|label| label.as_str().to_owned())
}

/// Whether readers share the key. Its value may differ between nodes, because it is the token of the first reader
/// there.
fn is_shared(holder: &Holder) -> bool {
    holder.token.starts_with(SHARED_PREFIX)
}

/// The token that a quorum of nodes has. Its remaining time is when the quorum breaks.
fn quorums_holder(votes: &Collect<Option<Holder>>) -> Option<Holder> {
    let mut by_token: HashMap<&str, Vec<Duration>> = HashMap::new();
    for holder in votes.answers.iter().flatten().flatten().flatten() {
        // Keys without a known end sort last.
        let left = holder.remaining.unwrap_or(Duration::MAX);
        let token = if is_shared(holder) { SHARED_PREFIX } else { &holder.token };
        by_token.entry(token).or_default().push(left);
    }
    let needed = votes.tally.quorum();
    let (token, mut lefts) = by_token.into_iter().find(|(_, lefts)| lefts.len() >= needed)?;
    lefts.sort_unstable();
    let left = lefts[lefts.len() - needed];
    Some(Holder { token: token.to_owned(), remaining: (left != Duration::MAX).then_some(left) })
}

fn word(
    node: &Arc<dyn Node>,
    key: &str,
    answer: Option<Result<Option<Holder>, Fault>>,
) -> NodeInspection {
    // A node may be free and still grant no lease. This explains why an acquire fails although the lock is not held.
    let guarded = node.guarded(key).map(|guarded| guarded.fault().to_string());
    let (state, holder, error) = match answer {
        Some(Ok(Some(holder))) if holder.token.starts_with(KEPT_PREFIX) => {
            (NodeState::Kept, Some(holder), guarded)
        }
        Some(Ok(Some(holder))) => (NodeState::Held, Some(holder), guarded),
        Some(Ok(None)) => (NodeState::Free, None, guarded),
        Some(Err(fault)) => (NodeState::Fault, None, Some(fault.to_string())),
        None => (NodeState::Fault, None, Some("no reply in time".to_owned())),
    };
    // The token without the prefix, which is that of the previous owner if there was one.
    let token = holder
        .as_ref()
        .map(|holder| holder.token.strip_prefix(KEPT_PREFIX).unwrap_or(&holder.token));
    NodeInspection {
        url: node.url().to_owned(),
        key: key.to_owned(),
        state,
        remaining: holder.as_ref().and_then(|holder| holder.remaining),
        // Escaped for terminals, because another program may have written it.
        token: token
            .filter(|token| !token.is_empty() && !token.starts_with(SHARED_PREFIX))
            .map(|token| escaped(token.chars().take(8))),
        label: token.and_then(label_of),
        error,
    }
}
