//! The checked keys and options of a lock. Plain data, which rounds and errors read.
//!
//! Made once for a lock, at its first use, and shared by all its acquires: nothing in it changes with a round.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, ErrorKind, NodeReport, seconds};
use crate::lease::{LeaseParams, Validity};
use crate::node::{Claim, Fencing};
use crate::options::Options;
use crate::text::shown;

/// A lock's keys and options, every rule of which was checked.
#[derive(Debug)]
pub(crate) struct Request {
    /// The Redis keys: all of them or none.
    pub(crate) keys: Arc<[String]>,
    /// Where each key's fencing tokens are kept; empty without fencing.
    pub(crate) fences: Arc<[String]>,
    /// What the lock's user chose.
    pub(crate) options: Options,
    /// The client's `restart_guard`.
    pub(crate) guard: Duration,
}

impl Request {
    /// The Redis keys, separated by commas: what errors and logs call the lock.
    pub(crate) fn key(&self) -> String {
        self.keys.join(", ")
    }

    /// A claim under a new token.
    ///
    /// Each round gets a new one, so a late delete cannot hit another round's grant.
    pub(crate) fn claim(&self) -> Claim {
        Claim::new(Arc::clone(&self.keys), Arc::clone(&self.fences))
    }

    /// The deadline of one vote.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.options.node_timeout()
    }

    /// What a grant makes of the lease whose round began at `started`.
    pub(crate) fn validity(&self, started: Instant) -> Validity {
        Validity::new(started, self.options.ttl, self.hold_end(started))
    }

    /// What the nodes are asked for: the ttl, or all that `max_hold` allows.
    ///
    /// The same in every round, whenever it begins: hence from any instant.
    pub(crate) fn asked_ttl(&self) -> Duration {
        self.validity(Instant::default()).asked
    }

    /// `max_hold` counts from where the ttl counts: before the first byte was sent.
    fn hold_end(&self, started: Instant) -> Option<Instant> {
        self.options.max_hold.map(|max_hold| started + max_hold)
    }

    /// What a first vote says of the fencing token: our wall clock is the proposal, the node's own has the last word.
    pub(crate) fn fencing(&self, wall_micros: impl FnOnce() -> u64) -> Fencing {
        if self.options.fencing { Fencing::Propose(wall_micros()) } else { Fencing::Off }
    }

    /// What never changes in a lease of this lock, acquired in a round that began at `started`.
    pub(crate) fn lease_params(
        &self,
        claim: Claim,
        started: Instant,
        fence: Option<u64>,
    ) -> LeaseParams {
        LeaseParams {
            claim,
            acquired: started,
            fence,
            renew: self.options.renew,
            // Of an attached lease this is where it was attached to: what it was before is not known here.
            hold_end: self.hold_end(started),
            min_hold: self.options.min_hold,
            node_timeout: self.node_timeout(),
            guard: self.guard,
            unit: self.options.unit,
            attached: false,
        }
    }

    /// A rule that this request breaks.
    pub(crate) fn invalid(&self, text: &str) -> Error {
        self.permanent(ErrorKind::Invalid, text)
    }

    /// Why no retry of this request can help.
    pub(crate) fn permanent(&self, kind: ErrorKind, text: &str) -> Error {
        let key = self.key();
        Error::permanent(kind, &format!("{}: {text}", shown(&key))).about(&key)
    }

    /// The error for a missing quorum. `lasted` is how long the outage lasted, if it was long.
    pub(crate) fn unavailable(&self, nodes: Vec<NodeReport>, lasted: Option<Duration>) -> Error {
        let what = if nodes.len() == 1 { "not available" } else { "no quorum" };
        Error::unavailable(&self.key(), &format!("{what}{}", lasting(lasted)), nodes)
    }

    /// A quorum granted, and by the time its answers were in nothing was left of the lease.
    pub(crate) fn late(
        &self,
        took: Duration,
        nodes: Vec<NodeReport>,
        lasted: Option<Duration>,
    ) -> Error {
        let (took, lives) = (seconds(took), seconds(self.asked_ttl()));
        let lasted = lasting(lasted);
        let what = format!(
            "granted too late{lasted}, because the replies took {took} and the lease lasts only {lives}"
        );
        Error::unavailable(&self.key(), &what, nodes).with_late()
    }
}

/// For how long, where it is worth saying.
fn lasting(time: Option<Duration>) -> String {
    // Less would read `0.000 s`.
    let long = time.filter(|time| *time >= Duration::from_millis(1));
    long.map_or_else(String::new, |time| format!(" for {}", seconds(time)))
}
