//! What a lease is made with and what never changes in it.

use std::time::Duration;

use crate::clock::Instant;
use crate::node::Claim;
use crate::options::Unit;

/// What a lease is made with and what never changes in it.
pub(crate) struct LeaseParams {
    /// The keys, and our token.
    pub(crate) claim: Claim,
    /// When the round began that a quorum granted.
    pub(crate) acquired: Instant,
    /// The fencing token, where one was asked for.
    pub(crate) fence: Option<u64>,
    /// Extend at a third of the ttl.
    pub(crate) renew: bool,
    /// When `max_hold` is over.
    pub(crate) hold_end: Option<Instant>,
    /// How long to wait for one node's answer.
    pub(crate) node_timeout: Duration,
    /// No ttl may be longer.
    pub(crate) guard: Duration,
    /// In which messages about the ttl are.
    pub(crate) unit: Unit,
}

/// Who asks for a lock or holds it inside its process, where the language knows: a word for messages ("this thread")
/// and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub &'static str, pub u64);
