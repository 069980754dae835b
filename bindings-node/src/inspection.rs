//! What the nodes say about a lock, as a plain object.

use napi_derive::napi;

use crate::errors::millis;

/// What the nodes say about a lock.
#[napi(object, object_from_js = false)]
pub struct Inspection {
    /// Whether one owner has the lock on a quorum of nodes.
    pub held: bool,
    /// What is left of it there, in ms; nothing when free, or without a known end. Where it is not held, how long it stays.
    pub remaining: Option<f64>,
    /// Each node's word on each key.
    pub nodes: Vec<NodeInspection>,
}

/// What one node says about a lock.
#[napi(object, object_from_js = false)]
pub struct NodeInspection {
    /// The node's URL without its password.
    pub url: String,
    /// The Redis key.
    pub key: String,
    /// `fault`: it gave no answer that counts; `kept`: it was released, and stays for `minHold`.
    #[napi(ts_type = "'free' | 'held' | 'kept' | 'fault'")]
    pub state: String,
    /// What is left, in ms; nothing when free, at a fault, or without a known end.
    pub remaining: Option<f64>,
    /// The first 8 digits.
    pub token: Option<String>,
    /// The fault's own text, or why the node takes no first vote yet (`restartGuard`).
    pub error: Option<String>,
}

impl From<redlock::Inspection> for Inspection {
    fn from(seen: redlock::Inspection) -> Self {
        Self {
            held: seen.held,
            remaining: seen.remaining.map(millis),
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
            error: seen.error,
        }
    }
}
