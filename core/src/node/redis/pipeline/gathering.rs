//! What goes out together: extends, or deletes, by one script for many leases; attempts with one read for all of their keys.
//!
//! Only what is asked in the same moment: nothing waits for company.

use bytes::BytesMut;
use once_cell::race::OnceBox;

use super::super::in_flight::InFlight;
use super::super::packed::Packed;
use super::super::script::{EXTEND, EXTEND_MANY, RELEASE, RELEASE_MANY, scripts};
use super::together::{Group, Question};

/// So many share a question at most: the server does nothing else meanwhile, for about 0.1 ms.
pub(super) const MOST: usize = 100;

/// Commands for one key, as they are on the wire, whose work can be done for many keys at once.
pub(super) struct Kind {
    /// Where it stands among the kinds.
    pub(super) at: usize,
    /// How it begins, before its key.
    before: Vec<u8>,
    /// How it ends, behind what is wanted of each.
    after: &'static [u8],
    /// The script for many, and how many words it wants for each key, besides the key. `None`: each is asked as it is, but
    /// for its read.
    many: Option<(usize, usize)>,
}

/// How many there are.
pub(super) const KINDS: usize = 3;
/// Where attempts and releases stand among them.
pub(super) const ATTEMPTS: usize = 0;
pub(super) const RELEASES: usize = 2;

/// Of one key, without a fencing token, where it need not write or stay.
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

/// How the read of an attempt begins, and how long it is besides its key.
const READ: &[u8] = b"*4\r\n$8\r\nGETRANGE\r\n";
const AROUND: usize = READ.len() + b"$1\r\n0\r\n$2\r\n33\r\n".len();

/// Of which kind a command is, and where in it its key ends and what else is wanted of that, as they are on the wire.
#[derive(Clone, Copy)]
pub(super) struct Joint {
    pub(super) kind: &'static Kind,
    key: usize,
    rest: usize,
}

impl Joint {
    /// With what others it can go, if with any: not what was asked alone already.
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

    /// Its key, as it is on the wire.
    pub(super) fn key<'a>(&self, of: &'a InFlight) -> &'a [u8] {
        &of.command.bytes[self.kind.before.len()..self.key]
    }
}

/// Commands of one kind, until something else is asked, or all is written.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) members: Vec<InFlight>,
    kind: Option<&'static Kind>,
    /// Their keys, and what else is wanted of each, as they are on the wire.
    keys: Vec<u8>,
    rest: Vec<u8>,
}

impl Gathering {
    /// Whether one of this kind may join.
    pub(super) fn is_of(&self, kind: Option<&'static Kind>) -> bool {
        self.members.is_empty() || self.kind.map(|kind| kind.at) == kind.map(|kind| kind.at)
    }

    /// One more.
    pub(super) fn add(&mut self, one: InFlight, joint: Joint) {
        let Joint { kind, key, rest } = joint;
        self.kind = Some(kind);
        let bytes = &one.command.bytes;
        self.keys.extend_from_slice(joint.key(&one));
        // An attempt's `SET` stays as it is.
        let from = if kind.many.is_some() { key } else { 0 };
        self.rest.extend_from_slice(&bytes[from..rest]);
        if self.members.capacity() == 0 {
            // Those that go out together are many.
            self.members.reserve(MOST / 3);
        }
        self.members.push(one);
    }

    /// One question for all of them, behind what is unsent; if there is but one, it stays what it was.
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
