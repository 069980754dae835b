//! Why a server takes no first vote for now (`restart_guard`).

use std::time::Duration;

use super::Fault;
use crate::text::spelled;

/// A server that takes no first vote, because it may have lost leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guarded {
    /// The time until it does. `None` if its age is unknown.
    pub(crate) left: Option<Duration>,
}

impl Guarded {
    /// Describes this to callers that wait for a quorum.
    pub(crate) fn fault(self) -> Fault {
        let option = spelled("restart_guard");
        let text = match self.left.map(|left| left.as_secs_f64()) {
            Some(left) => format!(
                "it restarted within {option} or replaced another server, and grants new leases in {left:.1} s"
            ),
            None => format!(
                "its uptime cannot be read (INFO), so it grants no new lease while {option} is on"
            ),
        };
        Fault::new(text).declined()
    }
}
