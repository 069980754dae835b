//! The answers to what went out together. Each has its own part of it, and what is not simply extended, or deleted, is asked for
//! by itself, so that one that is lost costs the others nothing.

use std::slice;

use redis::Value;

use super::super::in_flight::{Expects, InFlight};
use super::super::reply::owns;

/// A value of more bytes is no owner's token. Alone, an attempt reads no more of it than shows that; with others all of it.
const LONG: usize = 1024;

/// What goes out at once.
pub(crate) enum Question {
    /// A command as it is.
    Alone(InFlight),
    /// Commands of one kind, as one.
    Together(Group),
}

/// Commands of one kind that went out together.
pub(crate) struct Group {
    /// Whose it is.
    pub(crate) members: Vec<InFlight>,
    /// They are attempts: their parts of the answer are the keys' owners, and that there is none is an answer.
    pub(crate) attempts: bool,
    /// How many bytes it is on the wire.
    pub(super) length: usize,
    /// How many have had an answer of their own, which comes before the one to all.
    pub(super) heard: usize,
}

impl Question {
    /// Whose it is.
    pub(crate) fn members(&self) -> &[InFlight] {
        match self {
            Self::Alone(one) => slice::from_ref(one),
            Self::Together(group) => &group.members,
        }
    }

    /// The same, to keep.
    pub(crate) fn into_members(self) -> Vec<InFlight> {
        match self {
            Self::Alone(one) => vec![one],
            Self::Together(group) => group.members,
        }
    }

    /// How many bytes it is on the wire.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Alone(one) => one.length(),
            Self::Together(group) => group.length,
        }
    }
}

impl Group {
    /// The next to have an answer of its own, that of its `SET`; `None`: the next answer is to all.
    pub(crate) fn next(&mut self) -> Option<&mut InFlight> {
        let next = self.attempts.then(|| self.members.get_mut(self.heard)).flatten();
        self.heard += usize::from(next.is_some());
        next
    }

    /// Each one's part of the answer: its token, or nothing. `None`: it is no answer to these.
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

/// Whether something was read that is no owner's token, and may be as long as it likes.
pub(crate) fn has_long(shares: &[Value]) -> bool {
    shares.iter().any(|share| matches!(share, Value::BulkString(said) if said.len() > LONG))
}
