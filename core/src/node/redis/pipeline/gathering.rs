//! Combines commands of one kind into a single request.
//!
//! Extends and deletes are combined in one script for many leases, and attempts with a single read. Only commands that
//! are already waiting are combined. No command waits for others.

use bytes::BytesMut;
use once_cell::race::OnceBox;

use super::super::in_flight::InFlight;
use super::super::packed::Packed;
use super::super::script::{EXTEND, EXTEND_MANY, RELEASE, RELEASE_MANY, scripts};
use super::together::{Group, Question};

/// The maximum number of combined commands, because the server runs nothing else meanwhile.
pub(super) const MOST: usize = 100;

/// A kind of encoded commands for one key that can be combined for many keys.
pub(super) struct Kind {
    /// Its position among the kinds.
    pub(super) at: usize,
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
    ALL.get_or_init(|| Box::new(all()))
}

fn all() -> [Kind; KINDS] {
    let script = |at, one: usize, arguments, after, many| {
        let before = scripts()[one].call(1, arguments, 0).bytes();
        Kind { at, before, after, many: Some(many) }
    };
    [
        Kind { at: ATTEMPTS, before: b"*6\r\n$3\r\nSET\r\n".to_vec(), after: b"", many: None },
        script(1, EXTEND, 3, b"$1\r\n0\r\n", (EXTEND_MANY, 2)),
        script(RELEASES, RELEASE, 1, b"", (RELEASE_MANY, 1)),
    ]
}

/// The beginning of the read of an attempt, and its length without the key.
const READ: &[u8] = b"*4\r\n$8\r\nGETRANGE\r\n";
const AROUND: usize = READ.len() + b"$1\r\n0\r\n$2\r\n33\r\n".len();

/// The kind of a command, and the positions in its bytes where the key and the other arguments end.
#[derive(Clone, Copy)]
pub(super) struct Joint {
    pub(super) kind: &'static Kind,
    key: usize,
    rest: usize,
}

impl Joint {
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

    /// Returns the encoded key.
    pub(super) fn key<'a>(&self, of: &'a InFlight) -> &'a [u8] {
        &of.command.bytes[self.kind.before.len()..self.key]
    }
}

/// Commands of one kind, until another command follows or everything is written.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) members: Vec<InFlight>,
    kind: Option<&'static Kind>,
    /// The encoded keys and the other arguments.
    keys: Vec<u8>,
    rest: Vec<u8>,
}

impl Gathering {
    /// Whether a command of this kind can be added.
    pub(super) fn is_of(&self, kind: Option<&'static Kind>) -> bool {
        self.members.is_empty() || self.kind.map(|kind| kind.at) == kind.map(|kind| kind.at)
    }

    /// Adds a command.
    pub(super) fn add(&mut self, one: InFlight, joint: Joint) {
        let Joint { kind, key, rest } = joint;
        self.kind = Some(kind);
        let bytes = &one.command.bytes;
        self.keys.extend_from_slice(joint.key(&one));
        // The `SET` of an attempt is sent unchanged.
        let from = if kind.many.is_some() { key } else { 0 };
        self.rest.extend_from_slice(&bytes[from..rest]);
        if self.members.capacity() == 0 {
            // A second command usually means many.
            self.members.reserve(MOST / 3);
        }
        self.members.push(one);
    }

    /// Appends one request for all commands to the unsent bytes. A single command is returned unchanged.
    pub(super) fn take(&mut self, unsent: &mut BytesMut) -> Option<Question> {
        let (kind, count, before) = (self.kind?, self.members.len(), unsent.len());
        if count > 1 {
            let call = match kind.many {
                Some((script, each)) => scripts()[script].call(count, each * count, 0),
                None => Packed::of(1 + count, "MGET"),
            };
            if kind.many.is_none() {
                unsent.extend_from_slice(&self.rest);
            }
            unsent.extend_from_slice(&call.bytes());
            unsent.extend_from_slice(&self.keys);
            if kind.many.is_some() {
                unsent.extend_from_slice(&self.rest);
            }
        }
        self.keys.clear();
        self.rest.clear();
        if count < 2 {
            return self.members.pop().map(Question::Alone);
        }
        let members = std::mem::take(&mut self.members);
        let (attempts, length) = (kind.many.is_none(), unsent.len() - before);
        Some(Question::Together(Group { members, attempts, length, heard: 0 }))
    }
}
