//! Splits the replies to commands that were sent together.
//!
//! Each command has its part of the reply. A command whose key is not simply extended or deleted is sent again
//! separately, so that it does not affect the others.

use std::slice;

use redis::Value;

use super::super::in_flight::{Expects, InFlight};
use super::super::reply::owns;

/// A longer value is not a token. A separate attempt reads only enough to see that, while combined attempts read all of
/// it.
const LONG: usize = 1024;

/// A request with one reply.
pub(crate) enum Question {
    /// A single command.
    Alone(InFlight),
    /// Commands of one kind in one request.
    Together(Group),
}

/// Commands of one kind that were sent together.
pub(crate) struct Group {
    /// The commands.
    pub(crate) members: Vec<InFlight>,
    /// Whether they are attempts. Their parts of the reply are the owners of the keys, and a missing owner is a result.
    pub(crate) attempts: bool,
    /// The encoded length.
    pub(super) length: usize,
    /// How many commands have had a separate reply, before the common one.
    pub(super) heard: usize,
}

impl Question {
    /// Returns the commands.
    pub(crate) fn members(&self) -> &[InFlight] {
        match self {
            Self::Alone(one) => slice::from_ref(one),
            Self::Together(group) => &group.members,
        }
    }

    /// Takes the commands.
    pub(crate) fn into_members(self) -> Vec<InFlight> {
        match self {
            Self::Alone(one) => vec![one],
            Self::Together(group) => group.members,
        }
    }

    /// Returns the encoded length.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Alone(one) => one.length(),
            Self::Together(group) => group.length,
        }
    }
}

impl Group {
    /// Returns the next command with a separate reply, that to its `SET`. `None` if the next reply is the common one.
    pub(crate) fn next(&mut self) -> Option<&mut InFlight> {
        let next = self.attempts.then(|| self.members.get_mut(self.heard)).flatten();
        self.heard += usize::from(next.is_some());
        next
    }

    /// Splits the reply into one part for each command: its token, or nothing. Returns `None` if the reply does not
    /// fit.
    pub(crate) fn shares(&self, answer: &mut Value) -> Option<Vec<Value>> {
        let Value::Array(shares) = answer else { return None };
        let fits = |member: &InFlight, share: &Value| match (&member.command.expects, share) {
            (_, Value::Nil) => true,
            (Expects::Token(token), Value::BulkString(said)) => *said == token.as_bytes(),
            (Expects::Owner, said) => owns(said),
            _ => false,
        };
        let all = shares.len() == self.members.len()
            && self.members.iter().zip(shares.iter()).all(|(member, share)| fits(member, share));
        all.then(|| std::mem::take(shares))
    }
}

/// Whether a value is longer than any token.
pub(crate) fn has_long(shares: &[Value]) -> bool {
    shares.iter().any(|share| matches!(share, Value::BulkString(said) if said.len() > LONG))
}
