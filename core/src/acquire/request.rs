//! The validated keys and options of a lock, and the errors of an acquire.
//!
//! A lock creates its request at its first use, and all its acquires share it. An acquire runs one or more rounds, and
//! no round changes the request.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, ErrorKind, NodeReport, seconds};
use crate::lease::{LeaseParams, Validity};
use crate::lock::options::Options;
use crate::node::{Claim, Fencing};
use crate::text::shown;

/// The validated keys and options of a lock.
#[derive(Debug)]
pub(crate) struct Request {
    /// The Redis keys. An acquire gets all of them or none.
    pub(crate) keys: Arc<[String]>,
    /// The keys that store the fencing tokens, one for each lock key. Empty without fencing.
    pub(crate) fences: Arc<[String]>,
    /// The options of the lock.
    pub(crate) options: Options,
    /// The client's `restart_guard`: how long a restarted node grants no new leases.
    pub(crate) guard: Duration,
}

impl Request {
    /// Returns the Redis keys, separated by commas. Errors and logs use this as the name of the lock.
    pub(crate) fn key(&self) -> String {
        self.keys.join(", ")
    }

    /// Returns the keys with a new token, for one round.
    ///
    /// Each round has a new token, so a late delete of one round cannot remove the grant of another.
    pub(crate) fn claim(&self) -> Claim {
        Claim::new(Arc::clone(&self.keys), Arc::clone(&self.fences))
    }

    /// How long a node may take to reply to one vote.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.options.node_timeout()
    }

    /// Returns the validity of a lease whose round began at `started`.
    pub(crate) fn validity(&self, started: Instant) -> Validity {
        Validity::new(started, self.options.ttl, self.hold_end(started))
    }

    /// Returns the TTL that the nodes set: `ttl`, or `max_hold` if that is shorter.
    ///
    /// It does not depend on the start of the round, so any instant can be used for the calculation.
    pub(crate) fn asked_ttl(&self) -> Duration {
        self.validity(Instant::default()).asked
    }

    /// Returns when `max_hold` ends. Like the TTL, it counts from before the first byte was sent.
    fn hold_end(&self, started: Instant) -> Option<Instant> {
        self.options.max_hold.map(|max_hold| started + max_hold)
    }

    /// Returns the fencing part of a first vote. It proposes the time of our wall clock, and the node's clock decides.
    pub(crate) fn fencing(&self, wall_micros: impl FnOnce() -> u64) -> Fencing {
        if self.options.fencing { Fencing::Propose(wall_micros()) } else { Fencing::Off }
    }

    /// Returns the constant parameters of a lease that was acquired in a round that began at `started`.
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
            // For an attached lease this counts from the attach, because the time of its acquire is unknown here.
            hold_end: self.hold_end(started),
            min_hold: self.options.min_hold,
            node_timeout: self.node_timeout(),
            guard: self.guard,
            unit: self.options.unit,
            attached: false,
        }
    }

    /// Returns the error for a rule that this request violates.
    pub(crate) fn invalid(&self, text: &str) -> Error {
        self.permanent(ErrorKind::Invalid, text)
    }

    /// Returns an error that no retry of this request can avoid.
    pub(crate) fn permanent(&self, kind: ErrorKind, text: &str) -> Error {
        let key = self.key();
        Error::permanent(kind, &format!("{}: {text}", shown(&key))).about(&key)
    }

    /// Returns the error for a missing quorum. `lasted` is the duration of the outage, if it was long.
    pub(crate) fn unavailable(&self, nodes: Vec<NodeReport>, lasted: Option<Duration>) -> Error {
        let what = if nodes.len() == 1 { "not available" } else { "no quorum" };
        Error::unavailable(&self.key(), &format!("{what}{}", duration_text(lasted)), nodes)
    }

    /// Returns the error for a grant whose lease had expired when the replies of the quorum arrived.
    pub(crate) fn late(
        &self,
        took: Duration,
        nodes: Vec<NodeReport>,
        lasted: Option<Duration>,
    ) -> Error {
        let (took, lasts) = (seconds(took), seconds(self.asked_ttl()));
        let lasted = duration_text(lasted);
        let what = format!(
            "granted too late{lasted}, because the replies took {took} and the lease lasts only {lasts}"
        );
        Error::unavailable(&self.key(), &what, nodes).with_late()
    }
}

/// Returns the text for a duration, or nothing for a very short one.
fn duration_text(time: Option<Duration>) -> String {
    // A shorter time would be shown as `0.000 s`.
    let long = time.filter(|time| *time >= Duration::from_millis(1));
    long.map_or_else(String::new, |time| format!(" for {}", seconds(time)))
}
