//! The nodes' reports about a lock, as a plain object.

use napi_derive::napi;

use crate::errors::millis;

/// A snapshot of a lock, as reported by the nodes.
#[napi(object, object_from_js = false)]
pub struct Inspection {
    /// Whether one owner has the lock on a quorum of nodes. For a semaphore, whether no permit is free.
    pub held: bool,
    /// Which side holds a read/write lock. Undefined if it is free. For a lock, `read` if readers hold it, and
    /// otherwise undefined.
    #[napi(ts_type = "'read' | 'write'")]
    pub mode: Option<String>,
    /// How many permits of a semaphore are not free. For a lock, how many of its keys.
    pub taken: u32,
    /// How many permits the semaphore has. For a lock, how many keys.
    pub limit: u32,
    /// The time in ms until a quorum is free, unless the lease is renewed. Undefined if the lock is free or its end is
    /// unknown. For a lock that is not held, the time that its keys still stay (`minHold`). For a semaphore, the
    /// shortest time if no permit is free.
    pub remaining: Option<f64>,
    /// The label of the holder. Undefined if the lock is free or its holder has none.
    pub label: Option<String>,
    /// The report of each node about each key.
    pub nodes: Vec<NodeInspection>,
}

/// The report of one node about one key.
#[napi(object, object_from_js = false)]
pub struct NodeInspection {
    /// The node's URL, without its password.
    pub url: String,
    /// The Redis key.
    pub key: String,
    /// `fault` if the node did not return a valid reply. `kept` if the lock was released and its key stays for
    /// `minHold`.
    #[napi(ts_type = "'free' | 'held' | 'kept' | 'fault'")]
    pub state: String,
    /// The remaining time in ms. Undefined if the key is free, the node failed, or the end is unknown.
    pub remaining: Option<f64>,
    /// The first 8 digits of the owner's token. Undefined if readers share the key, or if it has data of another type.
    pub token: Option<String>,
    /// The label of the owner. For `kept`, that of the previous owner. Undefined if it has none.
    pub label: Option<String>,
    /// The text of the node's error, or why the node does not vote on new locks yet (`restartGuard`).
    pub error: Option<String>,
}

impl From<redlock::Inspection> for Inspection {
    fn from(seen: redlock::Inspection) -> Self {
        // Neither exceeds 1,000.
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            held: seen.held,
            mode: seen.mode.map(str::to_owned),
            taken: count(seen.taken),
            limit: count(seen.limit),
            remaining: seen.remaining.map(millis),
            label: seen.label,
            nodes: seen.nodes.into_iter().map(NodeInspection::from).collect(),
        }
    }
}

impl From<redlock::NodeInspection> for NodeInspection {
    fn from(seen: redlock::NodeInspection) -> Self {
        Self {
            url: seen.url,
            key: seen.key,
            state: seen.state.to_string(),
            remaining: seen.remaining.map(millis),
            token: seen.token,
            label: seen.label,
            error: seen.error,
        }
    }
}
