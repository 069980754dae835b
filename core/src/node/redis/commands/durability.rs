//! Defines the durability that a grant needs before it counts: on how many replicas it is, and whether on disk.
//!
//! Pure. It defines the request and evaluates the reply. [`crate::node::redis::protocol`] decides when to send it, and
//! which grants wait for it.

use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::errors::{is_missing, words};
use crate::error::seconds;
use crate::node::Fault;
use crate::text::spelled;

/// The durability that a client requires of each grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durability {
    /// The number of replicas that must have it.
    pub(crate) min_replicas: u32,
    /// Whether it must be on the server's disk, and on the disks of that number of replicas.
    pub(crate) fsync: bool,
}

impl Durability {
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn name(self) -> &'static str {
        if self.fsync { "WAITAOF" } else { "WAIT" }
    }

    /// Builds the request for all writes of this connection. The server replies within `time`.
    pub(crate) fn question(self, time: Duration) -> Cmd {
        // Zero would wait without a limit, and block all later commands of this connection.
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut question = cmd(self.name());
        if self.fsync {
            question.arg(1);
        }
        question.arg(self.min_replicas).arg(millis);
        question
    }

    /// Builds a request on a connection without writes, to which any server with the command can reply immediately.
    pub(crate) fn trial(self) -> Option<(&'static str, Cmd)> {
        // A server without an append-only file refuses `WAITAOF`. The time limit applies because other clients' writes
        // may not be on disk yet.
        let trial = || Self { min_replicas: 0, ..self }.question(Duration::ZERO);
        (!self.is_none()).then(|| (self.name(), trial()))
    }

    /// Returns why this server can never confirm a grant, by its reply to the trial. `replied` means that it replied
    /// to another trial.
    pub(crate) fn unmet(self, reply: &Value, replied: bool) -> Option<Fault> {
        let Value::ServerError(error) = reply else { return None };
        let said = error.details().unwrap_or_default();
        let (option, name) = (spelled(self.option()), self.name());
        let why = if said.contains("appendonly is disabled") {
            format!("{option} needs a server that writes an append-only file (appendonly yes): ")
        } else if is_missing(error, replied) && !said.contains("with replica instances") {
            let from =
                if self.fsync { "Redis 7.2 and Valkey support it" } else { "Redis supports it" };
            format!("{option} needs {name}, which the server does not support ({from}): ")
        } else {
            // The user lacks a right, or the server is a replica for now.
            let text = format!("{option} needs {name}, which the server refuses: ");
            return Some(Fault::new(text).saying(&words(reply), ""));
        };
        Some(Fault::unsupported(why).saying(&words(reply), ""))
    }

    fn option(self) -> &'static str {
        if self.fsync { "fsync" } else { "min_replicas" }
    }

    /// Whether the value can be the reply to the request.
    pub(crate) fn fits(self, value: &Value) -> bool {
        self.counts(value).is_some() || matches!(value, Value::ServerError(_))
    }

    /// Returns an error if the reply does not meet the requirement. `waited` is how long the grant was held back.
    pub(crate) fn shortfall(self, reply: &Value, waited: Duration) -> Option<Fault> {
        let Some((disks, replicas)) = self.counts(reply) else {
            let before = format!("cannot determine whether {} is met: ", spelled(self.option()));
            return Some(Fault::new(before).saying(&words(reply), ""));
        };
        let (within, least) = (seconds(waited), self.min_replicas);
        let mut short = Vec::new();
        if disks < i64::from(self.fsync) {
            let option = spelled("fsync");
            short.push(format!("was not on the server's disk within {within} ({option})"));
        }
        if replicas < i64::from(least) {
            let places = if self.fsync { "replica disks" } else { "replicas" };
            let option = spelled("min_replicas");
            short
                .push(format!("reached {replicas} of {least} {places} within {within} ({option})"));
        }
        (!short.is_empty()).then(|| Fault::new(format!("the grant {}", short.join(" and "))))
    }

    /// Returns the number of the server's own disks and of the replicas that have it.
    fn counts(self, reply: &Value) -> Option<(i64, i64)> {
        match reply {
            Value::Int(replicas @ 0..) if !self.fsync => Some((0, *replicas)),
            Value::Array(counts) if self.fsync => match counts[..] {
                [Value::Int(disks @ 0..), Value::Int(replicas @ 0..)] => Some((disks, replicas)),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_the_requested_number_of_copies() {
        let (waited, two) = (Duration::from_millis(200), Value::Array(vec![Value::Int(1); 2]));
        let replicas = Durability { min_replicas: 2, fsync: false };
        let says = |fault: Option<Fault>| fault.map(|fault| fault.to_string());
        for (reply, fault) in [
            (Value::Int(3), None),
            (Value::Int(2), None),
            (
                Value::Int(1),
                Some("the grant reached 1 of 2 replicas within 0.200 s (min_replicas)"),
            ),
            (two.clone(), Some("cannot determine whether min_replicas is met: (unread)")),
        ] {
            assert_eq!(says(replicas.shortfall(&reply, waited)).as_deref(), fault, "{reply:?}");
        }
        let disk = Durability { min_replicas: 1, fsync: true };
        let counts = |of: [i64; 2]| Value::Array(of.map(Value::Int).to_vec());
        for (reply, fault) in [
            (two, None),
            (counts([0, 1]), Some("the grant was not on the server's disk within 0.200 s (fsync)")),
            (
                counts([1, 0]),
                Some("the grant reached 0 of 1 replica disks within 0.200 s (min_replicas)"),
            ),
            (
                counts([0, 0]),
                Some(
                    "the grant was not on the server's disk within 0.200 s (fsync) and reached 0 of 1 replica disks \
                     within 0.200 s (min_replicas)",
                ),
            ),
            (Value::Int(1), Some("cannot determine whether fsync is met: (unread)")),
        ] {
            assert_eq!(says(disk.shortfall(&reply, waited)).as_deref(), fault, "{reply:?}");
        }
    }

    #[test]
    fn every_wait_command_has_a_timeout() {
        let bytes = |of: Durability| of.question(Duration::ZERO).get_packed_command();
        let replicas = bytes(Durability { min_replicas: 2, fsync: false });
        assert_eq!(replicas, b"*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n1\r\n");
        let disk = bytes(Durability { min_replicas: 0, fsync: true });
        assert_eq!(disk, b"*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n1\r\n");
    }
}
