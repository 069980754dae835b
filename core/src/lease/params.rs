//! The constant parameters of a lease.
//!
//! They are read without a lock. The variable part is in [`super::phase`].

use std::any::Any;
use std::fmt::Display;
use std::time::Duration;

use crate::clock::Instant;
use crate::lock::options::Unit;
use crate::node::Claim;

/// The constant parameters of a lease.
pub(crate) struct LeaseParams {
    /// The keys and the token.
    pub(crate) claim: Claim,
    /// When the round that granted the lease began.
    ///
    /// `max_hold`, the first renewal and the warning about a long hold are measured from here.
    pub(crate) acquired: Instant,
    /// The fencing token, if the lock uses fencing.
    pub(crate) fence: Option<u64>,
    /// Whether to renew the lease at a third of its TTL.
    pub(crate) renew: bool,
    /// When `max_hold` ends. No renewal or extension goes beyond it.
    pub(crate) hold_end: Option<Instant>,
    /// How long the keys stay after `acquired`, even if the lease is released earlier. Zero disables it.
    pub(crate) min_hold: Duration,
    /// How long to wait for one node's reply. An extend waits at most a fifth of the current TTL.
    pub(crate) node_timeout: Duration,
    /// The upper limit of the TTL, which is the client's `restart_guard`. Zero disables the limit.
    pub(crate) guard: Duration,
    /// The unit in messages about the TTL.
    pub(crate) unit: Unit,
    /// Whether the lease was attached. Another lease with its token may then live on when this one ends.
    pub(crate) attached: bool,
}

/// Where a program acquired a lease, in the notation of its language. Only messages show it.
pub trait CallSite: Any + Display + Send + Sync {}

impl<T: Any + Display + Send + Sync> CallSite for T {}

/// The thread or task that acquires or holds a lock in its process, if the language knows it.
///
/// A word for messages ("this thread") and a number that distinguishes two owners with the same word. Only messages use
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub &'static str, pub u64);
