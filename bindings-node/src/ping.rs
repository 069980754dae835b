//! Whether the nodes would grant locks, as a plain object.

use napi_derive::napi;

use crate::errors::millis;

/// Whether the nodes would grant locks now.
#[napi(object, object_from_js = false)]
pub struct Ping {
    /// Whether a quorum of the nodes would grant a lock now.
    pub ready: bool,
    /// The time in ms until a quorum would, if only `restartGuard` prevents it. 0 if it would now. Undefined if too few
    /// nodes replied.
    pub ready_in: Option<f64>,
    /// The reply of each node, in the order of `client.nodes`.
    pub nodes: Vec<NodePing>,
}

/// The reply of one node to a ping.
#[napi(object, object_from_js = false)]
pub struct NodePing {
    /// The node's URL, without its password.
    pub url: String,
    /// Whether it would grant a lock now.
    pub ready: bool,
    /// The time in ms until it would, because of `restartGuard`. 0 if it would now. Undefined if that is unknown.
    pub ready_in: Option<f64>,
    /// The time in ms from the call to its reply. The first one includes connecting. Undefined if it did not reply, or
    /// with an error.
    pub latency: Option<f64>,
    /// Why it would grant no lock.
    pub error: Option<String>,
}

impl From<redlock::Ping> for Ping {
    fn from(found: redlock::Ping) -> Self {
        let nodes = found.nodes.into_iter().map(|node| NodePing {
            url: node.url,
            ready: node.ready,
            ready_in: node.ready_in.map(millis),
            latency: node.latency.map(millis),
            error: node.error,
        });
        Self { ready: found.ready, ready_in: found.ready_in.map(millis), nodes: nodes.collect() }
    }
}
