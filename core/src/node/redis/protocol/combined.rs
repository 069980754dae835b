//! Combines commands of one kind into a single request, and splits its reply.
//!
//! Extends and deletes are combined in one script for many leases, and attempts with a single read. Only commands that
//! are already waiting are combined. No command waits for others. A command whose key is not simply extended or deleted
//! is sent again separately, so that it does not affect the others.

use std::collections::VecDeque;
use std::slice;

use bytes::BytesMut;
use once_cell::race::OnceBox;
use redis::Value;

use super::command::{Expects, InFlight};
use crate::node::redis::commands::encode::RequestBuffer;
use crate::node::redis::commands::reply::owns;
use crate::node::redis::commands::scripts::{EXTEND, EXTEND_MANY, RELEASE, RELEASE_MANY, scripts};

/// The maximum number of combined commands, because the server runs nothing else meanwhile.
pub(super) const MAX_COMBINED: usize = 100;

/// A longer value is not a token. A separate attempt reads only enough to see that, while combined attempts read all of
/// it.
const LONG: usize = 1024;

/// A kind of encoded commands for one key that can be combined for many keys.
struct Kind {
    /// Its position among the kinds.
    index: usize,
    /// The bytes before the key.
    before: Vec<u8>,
    /// The bytes after the arguments of the key.
    after: &'static [u8],
    /// The script for many keys, and its number of arguments for each key. `None` if the commands are sent unchanged
    /// except for the read.
    many: Option<(usize, usize)>,
}

/// The number of kinds.
pub(super) const KINDS: usize = 3;
/// The positions of attempts and releases.
pub(super) const ATTEMPTS: usize = 0;
pub(super) const RELEASES: usize = 2;

/// Only commands with one key, without fencing, that need not write and do not keep the key.
fn kinds() -> &'static [Kind; KINDS] {
    static ALL: OnceBox<[Kind; KINDS]> = OnceBox::new();
    ALL.get_or_init(|| {
        let script = |index, one: usize, arguments, after, many| {
            let before = scripts()[one].call(1, arguments, 0).bytes();
            Kind { index, before, after, many: Some(many) }
        };
        let set = b"*6\r\n$3\r\nSET\r\n".to_vec();
        Box::new([
            Kind { index: ATTEMPTS, before: set, after: b"", many: None },
            script(1, EXTEND, 3, b"$1\r\n0\r\n", (EXTEND_MANY, 2)),
            script(RELEASES, RELEASE, 1, b"", (RELEASE_MANY, 1)),
        ])
    })
}

/// The beginning of the read of an attempt, and its length without the key.
const READ: &[u8] = b"*4\r\n$8\r\nGETRANGE\r\n";
const AROUND: usize = READ.len() + b"$1\r\n0\r\n$2\r\n33\r\n".len();

/// The kind of a command, and the positions in its bytes where the key and the other arguments end.
#[derive(Clone, Copy)]
pub(super) struct Combinable {
    kind: &'static Kind,
    key: usize,
    rest: usize,
}

impl Combinable {
    /// Returns the kind of a command that can be combined. A command that is sent again cannot.
    pub(super) fn of(in_flight: &InFlight) -> Option<Self> {
        if in_flight.again || !in_flight.before().is_empty() {
            return None;
        }
        let bytes = &in_flight.command.bytes[..];
        let kind = kinds().iter().find(|kind| bytes.starts_with(&kind.before))?;
        let words = &bytes[kind.before.len()..];
        let digits = words.iter().position(|byte| *byte == b'\r')?;
        let length: usize = str::from_utf8(words.get(1..digits)?).ok()?.parse().ok()?;
        let word = digits + length + 4;
        let key = kind.before.len() + word;
        let behind = if kind.many.is_some() { kind.after.len() } else { AROUND + word };
        let rest = bytes.len().checked_sub(behind)?;
        let end = if kind.many.is_some() { kind.after } else { READ };
        (key <= rest && bytes[rest..].starts_with(end)).then_some(Self { kind, key, rest })
    }

    /// Returns the position of its kind.
    pub(super) fn kind(&self) -> usize {
        self.kind.index
    }

    /// Returns the encoded key.
    pub(super) fn key<'a>(&self, of: &'a InFlight) -> &'a [u8] {
        &of.command.bytes[self.kind.before.len()..self.key]
    }
}

/// Commands of one kind, until another command follows or everything is written.
#[derive(Default)]
pub(super) struct Batch {
    members: Vec<InFlight>,
    kind: Option<&'static Kind>,
    /// The encoded keys and the other arguments.
    keys: Vec<u8>,
    rest: Vec<u8>,
}

impl Batch {
    /// Returns the number of commands.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether a command of this kind can be added.
    pub(super) fn accepts(&self, kind: Option<usize>) -> bool {
        self.members.is_empty() || self.kind.map(|kind| kind.index) == kind
    }

    /// Adds a command.
    pub(super) fn add(&mut self, one: InFlight, combinable: Combinable) {
        let Combinable { kind, key, rest } = combinable;
        self.kind = Some(kind);
        self.keys.extend_from_slice(combinable.key(&one));
        // The `SET` of an attempt is sent unchanged.
        let from = if kind.many.is_some() { key } else { 0 };
        self.rest.extend_from_slice(&one.command.bytes[from..rest]);
        if self.members.capacity() == 0 {
            // A second command usually means many.
            self.members.reserve(MAX_COMBINED / 3);
        }
        self.members.push(one);
    }

    /// Appends one request for all commands to the buffer. A single command is returned unchanged.
    pub(super) fn take(&mut self, buffer: &mut BytesMut) -> Option<Request> {
        let (kind, count, before) = (self.kind?, self.members.len(), buffer.len());
        if count > 1 {
            let call = match kind.many {
                Some((script, each)) => scripts()[script].call(count, each * count, 0),
                None => RequestBuffer::of(1 + count, "MGET"),
            };
            if kind.many.is_none() {
                buffer.extend_from_slice(&self.rest);
            }
            buffer.extend_from_slice(&call.bytes());
            buffer.extend_from_slice(&self.keys);
            if kind.many.is_some() {
                buffer.extend_from_slice(&self.rest);
            }
        }
        self.keys.clear();
        self.rest.clear();
        if count < 2 {
            return self.members.pop().map(Request::Single);
        }
        let (members, length) = (std::mem::take(&mut self.members), buffer.len() - before);
        Some(Request::Combined(Combined { members, kind: kind.index, length, set_replies: 0 }))
    }
}

/// The requests without a reply in the order in which they were sent, which is also that of their replies. The write half
/// appends them, and the read half takes them.
pub(crate) type Expected = VecDeque<Request>;

/// A request whose reply is expected.
pub(crate) enum Request {
    /// A single command.
    Single(InFlight),
    /// Commands of one kind in one request.
    Combined(Combined),
}

impl Request {
    /// Returns the commands.
    pub(super) fn members(&self) -> &[InFlight] {
        match self {
            Self::Single(one) => slice::from_ref(one),
            Self::Combined(combined) => &combined.members,
        }
    }

    /// Takes the commands.
    pub(super) fn into_members(self) -> Vec<InFlight> {
        match self {
            Self::Single(one) => vec![one],
            Self::Combined(combined) => combined.members,
        }
    }

    /// Returns the encoded length.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Single(one) => one.length(),
            Self::Combined(combined) => combined.length,
        }
    }
}

/// Commands of one kind that were sent together.
pub(crate) struct Combined {
    /// The commands.
    pub(super) members: Vec<InFlight>,
    /// The position of their kind.
    pub(super) kind: usize,
    /// The encoded length.
    length: usize,
    /// How many commands have had a separate reply, before the common one.
    set_replies: usize,
}

impl Combined {
    /// Whether they are attempts. Their parts of the reply are the owners of the keys, and a missing owner is a result.
    pub(super) fn are_attempts(&self) -> bool {
        self.kind == ATTEMPTS
    }

    /// Returns the next command with a separate reply, that to its `SET`. `None` if the next reply is the common one.
    pub(super) fn next_set(&mut self) -> Option<&mut InFlight> {
        let next = self.are_attempts().then(|| self.members.get_mut(self.set_replies)).flatten();
        self.set_replies += usize::from(next.is_some());
        next
    }

    /// Splits the reply into one part for each command: its token, or nothing. Returns `None` if the reply does not
    /// fit.
    pub(super) fn split(&self, reply: &mut Value) -> Option<Vec<Value>> {
        let Value::Array(parts) = reply else { return None };
        let fits = |member: &InFlight, part: &Value| match (&member.command.expects, part) {
            (_, Value::Nil) => true,
            (Expects::Token(token), Value::BulkString(said)) => *said == token.as_bytes(),
            (Expects::Owner, said) => owns(said),
            _ => false,
        };
        let all = parts.len() == self.members.len()
            && self.members.iter().zip(parts.iter()).all(|(member, part)| fits(member, part));
        all.then(|| std::mem::take(parts))
    }
}

/// Whether a value is longer than any token.
pub(super) fn has_long(parts: &[Value]) -> bool {
    parts.iter().any(|part| matches!(part, Value::BulkString(said) if said.len() > LONG))
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
        Claim { keys: Arc::from([name.to_owned()]), fences, token: token.into() }
    }

    pub(crate) fn extend(name: &str, token: &str) -> InFlight {
        let params = VoteParams::later(TTL, TTL, Fencing::Off);
        InFlight::unheard(extend_script(&claim(name, token), params, false))
    }

    pub(crate) fn release(name: &str, token: &str) -> InFlight {
        InFlight::unheard(release_script(&claim(name, token), TTL, None))
    }

    pub(crate) fn acquire(name: &str, token: &str) -> InFlight {
        let params = VoteParams { first: true, ..VoteParams::later(TTL, TTL, Fencing::Off) };
        InFlight::unheard(attempt(&claim(name, &full(token)), params))
    }

    /// Extends the token to the usual length.
    pub(crate) fn full(token: &str) -> String {
        format!("{token:->32}")
    }

    fn kind(in_flight: &InFlight) -> Option<usize> {
        Combinable::of(in_flight).map(|combinable| combinable.kind())
    }

    fn combined<const N: usize>(members: [InFlight; N]) -> (Combined, Vec<u8>) {
        let (mut batch, mut buffer) = (Batch::default(), BytesMut::from("before"));
        for member in members {
            let combinable = Combinable::of(&member).unwrap();
            batch.add(member, combinable);
        }
        let Some(request) = batch.take(&mut buffer) else { panic!("none") };
        assert_eq!(request.length() + 6, buffer.len());
        let Request::Combined(combined) = request else { panic!("one") };
        (combined, buffer[6..].to_vec())
    }

    #[test]
    fn special_commands_are_not_batched() {
        for ask in [acquire, extend, release] {
            let together = kind(&ask("a", "ours"));
            assert!(together.is_some() && kind(&ask("\u{e9}\r\n$1", "ours")) == together);
            let mut again = ask("a", "ours");
            again.again = true;
            assert_eq!(kind(&again), None);
            let mut untracked = ask("a", "ours");
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
            release_script(&one, TTL, Some(TTL)),
            acquire_script(&one, plain, false),
        ] {
            assert_eq!(kind(&InFlight::unheard(command)), None);
        }
    }

    #[test]
    fn batch_script_has_keys_before_arguments() {
        let members = [extend("a", "ours"), extend("b\r\n", "theirs"), extend("", "x")];
        let mut expected = cmd("EVALSHA");
        expected.arg(&scripts()[EXTEND_MANY].digest).arg(3).arg(&["a", "b\r\n", ""]);
        expected.arg(&["ours", "10000", "theirs", "10000", "x", "10000"]);
        assert_eq!(combined(members).1, expected.get_packed_command());
        let members = [release("a", "ours"), release("b\r\n", "theirs"), release("", "x")];
        let mut expected = cmd("EVALSHA");
        expected.arg(&scripts()[RELEASE_MANY].digest).arg(3).arg(&["a", "b\r\n", ""]);
        expected.arg(&["ours", "theirs", "x"]);
        assert_eq!(combined(members).1, expected.get_packed_command());
    }

    #[test]
    fn batched_attempts_share_one_mget() {
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
    fn batched_attempt_gets_its_set_reply_and_owner() {
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
    fn each_batch_reply_is_its_token_or_nil() {
        let (both, _) = combined([extend("a", "ours"), extend("b", "theirs")]);
        let text = |text: &str| Value::BulkString(text.into());
        let read = |shares: &[Value]| both.split(&mut Value::Array(shares.to_vec()));
        let each = [text("ours"), text("theirs")];
        assert_eq!(read(&each).as_deref(), Some(&each[..]));
        let one = [Value::Nil, text("theirs")];
        assert_eq!(read(&one).as_deref(), Some(&one[..]));
        for other in [
            &[text("theirs"), text("ours")][..],
            &[text("ours")],
            &[text("ours"), text("theirs"), Value::Nil],
            &[text("ours"), Value::Int(1)],
            &[],
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
        assert_eq!(both.split(&mut text("ours")), None);
    }
}
