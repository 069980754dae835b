//! What a lease is made with and what never changes in it.
//!
//! Read without a lock; what changes is in [`super::phase`].

use std::any::Any;
use std::fmt::Display;
use std::time::Duration;

use crate::clock::Instant;
use crate::node::Claim;
use crate::options::Unit;

/// What a lease is made with and what never changes in it.
pub(crate) struct LeaseParams {
    /// The keys, and our token.
    pub(crate) claim: Claim,
    /// When the round began that a quorum granted.
    /// `max_hold`, the first renewal and the warning of a long hold count from here.
    pub(crate) acquired: Instant,
    /// The fencing token, where one was asked for.
    pub(crate) fence: Option<u64>,
    /// Extend at a third of the ttl.
    pub(crate) renew: bool,
    /// When `max_hold` is over.
    /// No renewal or extension makes the lease last longer.
    pub(crate) hold_end: Option<Instant>,
    /// How long the keys stay after `acquired`, whenever the lease is released; zero: until then.
    pub(crate) min_hold: Duration,
    /// How long to wait for one node's answer.
    /// An extend waits for a fifth of the present ttl, where that is less.
    pub(crate) node_timeout: Duration,
    /// No ttl may be longer.
    /// The client's `restart_guard`; zero: there is none.
    pub(crate) guard: Duration,
    /// In which messages about the ttl are.
    pub(crate) unit: Unit,
    /// Whether it continues a lease that was held already: another one of its token may live on when it ends.
    pub(crate) attached: bool,
}

/// Where a program acquired a lease, as its language notes it and messages show it.
pub trait CallSite: Any + Display + Send + Sync {}

impl<T: Any + Display + Send + Sync> CallSite for T {}

/// Who asks for a lock or holds it inside its process, where the language knows: a word for messages ("this thread")
/// and a number.
///
/// The number tells two of the same word apart: a thread's, or a task's. Nothing depends on it but a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub &'static str, pub u64);
