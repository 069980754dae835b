//! What a request sends, and the errors about it.

use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::error::{Error, ErrorKind, NodeReport, NodeState, Result, measurable, seconds};
use crate::node::{Claim, Fencing, LabelOption};
use crate::options::lock::Request;
use crate::primitive::{Preference, Primitive};
use crate::quorum::{Collect, Nodes, Validity};
use crate::text::shown;

impl Request {
    /// Returns the name in errors and logs: the Redis keys, separated by commas, or the name of a semaphore.
    pub(crate) fn key(&self) -> String {
        match &self.primitive {
            Primitive::Mutex { .. } | Primitive::ReadWrite(_) => self.identity.join(", "),
            Primitive::Semaphore(semaphore) => semaphore.name.clone(),
        }
    }

    /// Returns the claim of one round, with a new token.
    ///
    /// Each round has a new token, so a late delete of one round cannot remove the grant of another.
    pub(crate) fn claim(&self, preference: &Preference) -> Claim {
        let label = self.options.label.as_ref().and_then(LabelOption::text);
        self.primitive.claim(&self.identity, preference, label.as_deref())
    }

    pub(crate) fn node_timeout(&self) -> Duration {
        self.options.node_timeout()
    }

    pub(crate) fn validity(&self, started: Instant) -> Validity {
        Validity::new(started, self.options.ttl, self.options.hold_end(started))
    }

    /// Returns the TTL of a new lease: `ttl`, or `max_hold` if that is shorter.
    ///
    /// It does not depend on the start of the round, so any instant can be used for the calculation.
    fn lease_ttl(&self) -> Duration {
        self.validity(Instant::default()).asked
    }

    /// Returns the TTL that the nodes set for a new lease.
    pub(crate) fn key_ttl(&self) -> Duration {
        let start = Instant::default();
        self.validity(start).key_ttl(&self.options, start)
    }

    /// Returns the fencing part of a first vote. It proposes the time of our wall clock, and the node's clock decides.
    pub(crate) fn fencing(&self, clock: &dyn Clock) -> Fencing {
        if self.options.fencing { Fencing::Propose(clock.wall_micros()) } else { Fencing::Off }
    }

    /// Returns the error for a rule that this request violates.
    pub(crate) fn invalid(&self, text: &str) -> Error {
        self.permanent(ErrorKind::Invalid, text)
    }

    /// Returns an error that no retry of this request can avoid.
    pub(crate) fn permanent(&self, kind: ErrorKind, text: &str) -> Error {
        let key = self.key();
        Error::new(kind, &format!("{}: {text}", shown(&key))).about(&key)
    }

    /// Returns the error for votes without a quorum of replies: an error that no retry can avoid, or the result of each
    /// node. `timeout` is how long the replies were awaited.
    pub(crate) fn no_quorum<T>(
        &self,
        nodes: &Nodes,
        votes: &Collect<T>,
        timeout: Duration,
    ) -> Error {
        match nodes.permanent(votes) {
            Some((kind, text)) => self.permanent(kind, &text),
            None => self.unavailable(nodes.report(votes, timeout), None),
        }
    }

    /// Waits for the connections of a quorum. Commands with a single attempt need them first.
    pub(crate) async fn connect(&self, nodes: &Nodes) -> Result<()> {
        let connected = nodes.connect(&self.identity).await;
        connected.map_err(|votes| self.no_quorum(nodes, &votes, nodes.connect_timeout))
    }

    /// Returns the error for a missing quorum. `lasted` is the duration of the outage, if it was long.
    pub(crate) fn unavailable(&self, nodes: Vec<NodeReport>, lasted: Option<Duration>) -> Error {
        let failed = nodes.iter().filter(|node| node.state == NodeState::Fault).count();
        let has_no_time =
            |node: &NodeReport| node.state == NodeState::Pending && node.error.is_some();
        let is_cut = nodes.iter().any(has_no_time);
        let what = match nodes.len() {
            1 if is_cut => "wait was too short to receive a reply of the node".to_owned(),
            // The failed nodes are not the reason, because the others are a quorum.
            count if is_cut && failed * 2 < count => {
                "wait was too short to receive the replies of a quorum".to_owned()
            }
            1 => format!("not available{}", duration_text(lasted)),
            _ => format!("no quorum{}", duration_text(lasted)),
        };
        Error::unavailable(&self.key(), &what, nodes)
    }

    /// Returns the error for a grant whose lease had expired when the replies of the quorum arrived.
    pub(crate) fn late(
        &self,
        took: Duration,
        nodes: Vec<NodeReport>,
        lasted: Option<Duration>,
    ) -> Error {
        let (took, lasts) = (seconds(took), seconds(self.lease_ttl()));
        let lasted = duration_text(lasted);
        let what = format!(
            "granted too late{lasted}: the replies were read {took} after the request, and the lease lasts only {lasts}, \
             so a node, the network or this process (a blocked event loop) is slow"
        );
        Error::unavailable(&self.key(), &what, nodes).with_late()
    }
}

/// Returns the text for a duration, or nothing for a very short one.
fn duration_text(time: Option<Duration>) -> String {
    time.and_then(measurable).map_or_else(String::new, |time| format!(" for {time}"))
}
