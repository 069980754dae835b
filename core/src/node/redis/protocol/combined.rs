//! Combines commands of one kind into a single request, and splits its reply.
//!
//! | kind | a single command | the combined request |
//! |---|---|---|
//! | attempt to acquire | `SET NX`, then `GETRANGE` of the key to read its owner | each `SET NX`, then one `MGET` of all keys |
//! | extend | the script `extend.lua` | the script `extend_many.lua` |
//! | release | the script `release.lua` | the script `release_many.lua` |
//!
//! Only commands that are already waiting are combined. No command waits for others. If the combined request does not
//! extend or delete a key, its command is sent again separately.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::slice;

use bytes::BytesMut;
use foldhash::fast::FixedState;
use redis::Value;

use crate::node::redis::commands::command::{BatchKind, Expects};
use crate::node::redis::commands::encode::RequestBuffer;
use crate::node::redis::commands::reply::owns;
use crate::node::redis::commands::scripts::{Operation, script};
use crate::node::redis::protocol::in_flight::InFlight;

/// The maximum number of combined commands. The server serves no other client while it runs them.
pub(super) const MAX_COMBINED: usize = 100;

/// A value longer than this makes combined attempts too expensive. `MGET` reads whole values, while the `GETRANGE` of a
/// single attempt reads only as much as a token has.
const MAX_VALUE: usize = 1024;

/// The script for many keys of this kind, and its number of arguments for each key. `None` for attempts, whose `SET`s
/// are sent unchanged.
fn operation(kind: BatchKind) -> Option<(Operation, usize)> {
    match kind {
        BatchKind::Attempts => None,
        BatchKind::Extends => Some((Operation::ExtendMany, 2)),
        BatchKind::Releases => Some((Operation::ReleaseMany, 1)),
    }
}

/// Collects commands of one kind, until a command of another kind follows or everything is written.
#[derive(Default)]
pub(super) struct Batch(Vec<InFlight>);

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the kind of its commands. `None` if it is empty.
    fn kind(&self) -> Option<BatchKind> {
        Some(self.0.first()?.command.combinable?.kind)
    }

    /// Whether a command of this kind can be added. `None` is a command that cannot be combined.
    pub(super) fn accepts(&self, kind: Option<BatchKind>) -> bool {
        self.0.is_empty() || self.kind() == kind
    }

    pub(super) fn add(&mut self, one: InFlight) {
        if self.0.capacity() == 0 {
            // Most batches with a second command have many.
            self.0.reserve(MAX_COMBINED / 3);
        }
        self.0.push(one);
    }

    /// Appends one request for all commands to the buffer, and empties the batch. A single command is returned without
    /// being written.
    pub(super) fn take(&mut self, buffer: &mut BytesMut) -> Option<SentRequest> {
        let (kind, count, before) = (self.kind()?, self.len(), buffer.len());
        if count < 2 {
            return self.0.pop().map(SentRequest::Single);
        }
        let members = std::mem::take(&mut self.0);
        let parts =
            || members.iter().filter_map(|one| Some(one.command.combinable?.parts(&one.command)));
        let keys =
            |buffer: &mut BytesMut| parts().for_each(|(key, _)| buffer.extend_from_slice(key));
        // For attempts, these are the whole `SET` commands.
        let arguments = |buffer: &mut BytesMut| {
            parts().for_each(|(_, arguments)| buffer.extend_from_slice(arguments));
        };
        if let Some((operation, each)) = operation(kind) {
            buffer.extend_from_slice(&script(operation).call(count, each * count, 0).bytes());
            keys(buffer);
            arguments(buffer);
        } else {
            arguments(buffer);
            let mut get = RequestBuffer::with_room(2, 4);
            get.request(1 + count).word("MGET");
            buffer.extend_from_slice(&get.bytes());
            keys(buffer);
        }
        let length = buffer.len() - before;
        Some(SentRequest::Combined(Combined { members, kind, length, set_replies: 0 }))
    }
}

/// The number of slots for released keys.
const RELEASED_SLOTS: usize = 4096;

/// Remembers keys that were released over a connection, by their hashes in a fixed number of slots.
///
/// A false result only costs time. No grant or refusal depends on it. Allocates memory with the first key.
#[derive(Default)]
pub(super) struct ReleasedKeys(Vec<u32>);

impl ReleasedKeys {
    pub(super) fn add(&mut self, key: &[u8]) {
        if self.0.is_empty() {
            self.0 = vec![0; RELEASED_SLOTS];
        }
        let (slot, mark) = slot_and_mark(key);
        self.0[slot] = mark;
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let (slot, mark) = slot_and_mark(key);
        self.0.get(slot) == Some(&mark)
    }
}

/// Returns the slot of the key, and its mark, which is never zero.
fn slot_and_mark(key: &[u8]) -> (usize, u32) {
    let hash = FixedState::default().hash_one(key);
    let [slot, mark] =
        [hash % RELEASED_SLOTS as u64, hash >> 32].map(|part| u32::try_from(part).unwrap_or(0));
    (slot as usize, mark | 1)
}

/// The requests without a reply in the order in which they were sent, which is also that of their replies.
pub(crate) type Expected = VecDeque<SentRequest>;

/// A request whose reply is expected.
#[allow(
    clippy::large_enum_variant,
    reason = "almost all are single, and a box would be an allocation for each"
)]
pub(crate) enum SentRequest {
    Single(InFlight),
    Combined(Combined),
}

impl SentRequest {
    pub(super) fn members(&self) -> &[InFlight] {
        match self {
            Self::Single(one) => slice::from_ref(one),
            Self::Combined(combined) => &combined.members,
        }
    }

    pub(super) fn members_mut(&mut self) -> &mut [InFlight] {
        match self {
            Self::Single(one) => slice::from_mut(one),
            Self::Combined(combined) => &mut combined.members,
        }
    }

    pub(super) fn into_members(self) -> Vec<InFlight> {
        match self {
            Self::Single(one) => vec![one],
            Self::Combined(combined) => combined.members,
        }
    }

    pub(super) fn length(&self) -> usize {
        match self {
            Self::Single(one) => one.length(),
            Self::Combined(combined) => combined.length,
        }
    }
}

/// Commands of one kind that were sent together.
pub(crate) struct Combined {
    pub(super) members: Vec<InFlight>,
    pub(super) kind: BatchKind,
    /// The encoded length.
    length: usize,
    /// The number of `SET` replies so far. Each attempt has one, and the reply to `MGET` follows.
    set_replies: usize,
}

impl Combined {
    /// Whether they are attempts. Each part of the reply is then the owner of a key, or nil if the key is free.
    pub(super) fn are_attempts(&self) -> bool {
        self.kind == BatchKind::Attempts
    }

    /// Returns the attempt whose `SET` reply is next. `None` if the next reply is the one for all commands.
    pub(super) fn next_set(&mut self) -> Option<&mut InFlight> {
        let next = self.are_attempts().then(|| self.members.get_mut(self.set_replies)).flatten();
        self.set_replies += usize::from(next.is_some());
        next
    }

    /// Splits the reply into one part for each command: its token, the owner of its key, or nil. Returns `None` if the
    /// reply belongs to another request.
    pub(super) fn split(&self, reply: &mut Value) -> Option<Vec<Value>> {
        let Value::Array(parts) = reply else { return None };
        let fits = |member: &InFlight, part: &Value| match (&member.command.expects, part) {
            (_, Value::Nil) => true,
            (Expects::Token(token), Value::BulkString(value)) => *value == token.as_bytes(),
            (Expects::Owner, value) => owns(value),
            _ => false,
        };
        let all = parts.len() == self.members.len()
            && self.members.iter().zip(parts.iter()).all(|(member, part)| fits(member, part));
        all.then(|| std::mem::take(parts))
    }
}

/// Whether a value is much longer than any token, so that attempts must no longer be combined.
pub(super) fn has_long(parts: &[Value]) -> bool {
    parts.iter().any(|part| matches!(part, Value::BulkString(value) if value.len() > MAX_VALUE))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use redis::cmd;

    use super::*;
    use crate::node::redis::commands::scripts::{
        acquire_script, attempt, extend_script, release_script,
    };
    use crate::node::{Claim, Fencing, VoteParams};

    pub(crate) const TTL: Duration = Duration::from_secs(10);

    fn claim(name: &str, token: &str) -> Claim {
        let fences = Arc::from([format!("{name}:fence")]);
        Claim { fences, ..Claim::of_owner(token.into(), [name.to_owned()].into()) }
    }

    pub(crate) fn extend(name: &str, token: &str) -> InFlight {
        let params = VoteParams::later(TTL, TTL, Fencing::Off);
        InFlight::without_caller(extend_script(&claim(name, token), params, false))
    }

    pub(crate) fn release(name: &str, token: &str) -> InFlight {
        InFlight::without_caller(release_script(&claim(name, token), TTL, None))
    }

    pub(crate) fn acquire(name: &str, token: &str) -> InFlight {
        let params = VoteParams { first: true, ..VoteParams::later(TTL, TTL, Fencing::Off) };
        InFlight::without_caller(attempt(&claim(name, &full(token)), params))
    }

    /// Extends the token to the usual length.
    pub(crate) fn full(token: &str) -> String {
        format!("{token:->32}")
    }

    fn kind(in_flight: &InFlight) -> Option<BatchKind> {
        in_flight.combinable().map(|combinable| combinable.kind)
    }

    fn combined<const N: usize>(members: [InFlight; N]) -> (Combined, Vec<u8>) {
        let (mut batch, mut buffer) = (Batch::default(), BytesMut::from("before"));
        for member in members {
            assert!(member.combinable().is_some());
            batch.add(member);
        }
        let Some(request) = batch.take(&mut buffer) else { panic!("the batch is empty") };
        assert_eq!(request.length() + 6, buffer.len());
        let SentRequest::Combined(combined) = request else { panic!("it is a single command") };
        (combined, buffer[6..].to_vec())
    }

    #[test]
    fn commands_with_other_options_are_not_combined() {
        for build in [acquire, extend, release] {
            let simple = kind(&build("a", "ours"));
            assert!(simple.is_some() && kind(&build("\u{e9}\r\n$1", "ours")) == simple);
            let mut again = build("a", "ours");
            again.again = true;
            assert_eq!(kind(&again), None);
            let mut untracked = build("a", "ours");
            untracked.command.untracked = true;
            assert_eq!(kind(&untracked), None);
        }
        let (one, plain) = (claim("a", "ours"), VoteParams::later(TTL, TTL, Fencing::Off));
        let fenced = VoteParams { fencing: Fencing::AtLeast(7), ..plain };
        let two = Claim { keys: Arc::from(["a", "b"].map(String::from)), ..one.clone() };
        for command in [
            extend_script(&one, plain, true),
            extend_script(&one, fenced, false),
            extend_script(&two, plain, false),
            release_script(&two, TTL, None),
            release_script(&one, TTL, Some((TTL, false))),
            acquire_script(&one, plain, false),
        ] {
            assert_eq!(kind(&InFlight::without_caller(command)), None);
        }
    }

    #[test]
    fn combined_script_has_keys_before_arguments() {
        let check = |members: [InFlight; 3], operation: Operation, arguments: &[&str]| {
            let mut expected = cmd("EVALSHA");
            expected.arg(&script(operation).digest).arg(3).arg(&["a", "b\r\n", ""]).arg(arguments);
            assert_eq!(combined(members).1, expected.get_packed_command());
        };
        let members = [extend("a", "ours"), extend("b\r\n", "theirs"), extend("", "x")];
        check(members, Operation::ExtendMany, &["ours", "10000", "theirs", "10000", "x", "10000"]);
        let members = [release("a", "ours"), release("b\r\n", "theirs"), release("", "x")];
        check(members, Operation::ReleaseMany, &["ours", "theirs", "x"]);
    }

    #[test]
    fn combined_attempts_share_one_mget() {
        let (_, bytes) = combined([acquire("a", "ours"), acquire("b\r\n", "theirs")]);
        let mut expected = Vec::new();
        for (key, token) in [("a", "ours"), ("b\r\n", "theirs")] {
            let set =
                cmd("SET").arg(&[key, &full(token), "NX", "PX", "10000"]).get_packed_command();
            expected.extend(set);
        }
        expected.extend(cmd("MGET").arg(&["a", "b\r\n"]).get_packed_command());
        assert_eq!(bytes, expected);
    }

    #[test]
    fn combined_attempt_gets_its_set_reply_and_owner() {
        let (mut both, _) = combined([acquire("a", "ours"), acquire("b", "theirs")]);
        for set in [true, false] {
            both.next_set().unwrap().set = Some(set);
        }
        assert!(both.next_set().is_none());
        assert_eq!(both.members[0].set.zip(both.members[1].set), Some((true, false)));
        let owners = [Value::BulkString("ours".into()), Value::Nil];
        assert_eq!(both.split(&mut Value::Array(owners.to_vec())).as_deref(), Some(&owners[..]));
        assert!(both.split(&mut Value::Array(vec![Value::Nil, Value::Okay])).is_none());
        assert!(!has_long(&owners) && has_long(&[Value::BulkString(vec![0; 1025])]));
    }

    #[test]
    fn each_part_of_a_combined_reply_is_its_token_or_nil() {
        let (both, _) = combined([extend("a", "ours"), extend("b", "theirs")]);
        let text = |text: &str| Value::BulkString(text.into());
        let split = |parts: &[Value]| both.split(&mut Value::Array(parts.to_vec()));
        let each = [text("ours"), text("theirs")];
        assert_eq!(split(&each).as_deref(), Some(&each[..]));
        let one = [Value::Nil, text("theirs")];
        assert_eq!(split(&one).as_deref(), Some(&one[..]));
        for other in [
            &[text("theirs"), text("ours")][..],
            &[text("ours")],
            &[text("ours"), text("theirs"), Value::Nil],
            &[text("ours"), Value::Int(1)],
            &[],
        ] {
            assert_eq!(split(other), None, "{other:?}");
        }
        assert_eq!(both.split(&mut text("ours")), None);
    }
}
