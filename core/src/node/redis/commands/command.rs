//! Defines a command: its bytes, its purpose, and the form of its reply. Plain data.

use std::sync::Arc;
use std::time::Duration;

use super::durability::Durability;
use super::encode::arguments;
use crate::clock::Instant;
use crate::node::slot;

/// The purpose of a command, which determines what happens when the connection breaks.
#[derive(Clone)]
pub(crate) enum Purpose {
    /// The first vote of a lease. The restart guard applies, and it is not sent without a waiting caller. `sent` means
    /// that this is its second command.
    FirstVote { token: Arc<str>, sent: bool },
    /// A later vote, which may also set its token on a key.
    Heal(Arc<str>),
    /// Extends keys that we own, so nothing becomes pending.
    Extend,
    /// Requests the confirmation of replicas and disks.
    Confirm,
    /// Nothing becomes pending.
    Plain,
    /// Gets its reply as soon as there is a connection, and is never sent.
    Ready,
    /// A delete, which becomes pending if its reply is not read.
    Delete {
        token: Arc<str>,
        /// The tokens of earlier claims of the same keys, whose deletes were merged with this one, from the oldest on.
        earlier: Box<[Arc<str>]>,
        /// The longest remaining life of the keys.
        lifetime: Duration,
        /// Set when it becomes pending.
        until: Option<Instant>,
        /// Whether a lease had the keys, so that they exist on the server. A failed vote may have set none.
        of_lease: bool,
    },
    /// Checks whether an idle connection still works. Other commands wait for the reply.
    Probe,
}

impl Purpose {
    /// Whether it must not be run without a waiting caller: a first vote, or a redirected vote that may arrive after
    /// its own delete.
    pub(crate) fn requires_waiting_caller(&self, redirects: Redirects) -> bool {
        match self {
            Self::FirstVote { .. } => true,
            Self::Heal(_) => redirects.since.is_some(),
            _ => false,
        }
    }

    /// The purpose of the delete of a lease's keys, which live for at most the given time.
    pub(crate) fn delete(token: Arc<str>, lifetime: Duration) -> Self {
        Self::Delete { token, earlier: Box::default(), lifetime, until: None, of_lease: true }
    }

    /// Returns until when the keys of a pending delete may exist.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self {
            Self::Delete { until, .. } => *until,
            _ => None,
        }
    }

    /// Whether it is a vote or a delete.
    pub(crate) fn is_for_locks(&self) -> bool {
        match self {
            Self::FirstVote { .. } | Self::Heal(_) | Self::Extend | Self::Delete { .. } => true,
            Self::Confirm | Self::Plain | Self::Ready | Self::Probe => false,
        }
    }

    /// Whether it acquires or extends a lease.
    pub(crate) fn is_vote(&self) -> bool {
        matches!(self, Self::FirstVote { .. } | Self::Heal(_) | Self::Extend)
    }
}

/// The form of the reply. Any other reply belongs to another command.
#[derive(Clone)]
pub(crate) enum Expects {
    /// Any reply, because no caller reads it.
    Anything,
    /// A reply that ends with this text. A proxy that loses one reply shifts all later ones. Without the echo, a round
    /// could count another round's grant.
    Echo(Arc<str>),
    /// Either such a reply, or this token alone if all keys were ours.
    Token(Arc<str>),
    /// Two replies: to `SET NX`, and the owner of the key if any.
    Owner,
    /// The number of replicas and disks.
    Durable(Durability),
}

/// The prefix of a command whose reads the server must not track: `CLIENT CACHING NO`, for tracking with `OPTOUT`. The
/// server tracks an absent key that was read until it is written. Without the prefix, every inspected name and every
/// late delete would leave an entry.
pub(crate) const UNTRACKED: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$2\r\nNO\r\n";

/// The prefix of a command for a key in a migrating slot, which the importing server accepts only after it. It cannot
/// be combined with [`UNTRACKED`], because each applies only to the next command.
pub(crate) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// A command for the server, with the expected form of its reply.
#[derive(Clone)]
pub(crate) struct Command {
    pub(crate) bytes: Vec<u8>,
    pub(crate) expects: Expects,
    /// What happens when the connection breaks.
    pub(crate) purpose: Purpose,
    /// How long the caller waits. The server gets at least this time before it counts as dead.
    pub(crate) timeout: Duration,
    /// Whether the server must not track these keys, because no caller waits for their changes.
    pub(crate) untracked: bool,
    /// How it can be combined with others.
    pub(crate) combinable: Option<Combinable>,
}

/// A kind of commands for one key of which many can be sent in a single request (`protocol::combined`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    /// Attempts to acquire a key: `SET NX` and a read of the owner.
    Attempts,
    /// Extends that need not write for `WAIT`, without fencing.
    Extends,
    /// Releases that delete the key.
    Releases,
}

/// The kind of a command that can be combined, and the positions in its bytes where its key begins and ends, and where
/// its arguments end. Those of an attempt are in its `SET`.
#[derive(Clone, Copy)]
pub(crate) struct Combinable {
    pub(crate) kind: BatchKind,
    positions: [u16; 3],
}

impl Combinable {
    /// Describes a command. `None` if it is too long to be combined.
    pub(crate) fn new(kind: BatchKind, positions: [usize; 3]) -> Option<Self> {
        let [from, to, end] = positions.map(|at| u16::try_from(at).ok());
        Some(Self { kind, positions: [from?, to?, end?] })
    }

    /// Returns the encoded key, and the encoded arguments after it. For an attempt, the latter is the whole `SET`.
    pub(crate) fn parts(self, command: &Command) -> (&[u8], &[u8]) {
        let [from, to, end] = self.positions.map(usize::from);
        let arguments_from = if self.kind == BatchKind::Attempts { 0 } else { to };
        (&command.bytes[from..to], &command.bytes[arguments_from..end])
    }
}

/// The reply timeout of commands whose callers have no deadline. A server may be silent for that long.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Command {
    /// Creates a command with the default timeout, for keys that the server may track.
    pub(crate) fn new(bytes: Vec<u8>, expects: Expects, purpose: Purpose) -> Self {
        Self { bytes, expects, purpose, timeout: TIMEOUT, untracked: false, combinable: None }
    }

    /// Returns the hash slot of the first key, which is that of all keys. `None` without keys.
    ///
    /// The key is parsed from the bytes, because it is rarely needed and would take memory in each command.
    pub(crate) fn slot(&self) -> Option<u16> {
        // Either `EVALSHA digest count key`, `EVAL script count key`, or `SET key`.
        let mut words = self.words();
        let key = match words.next()? {
            b"EVALSHA" | b"EVAL" => words.nth(1).filter(|count| *count != b"0").and(words.next()),
            b"SET" | b"GETRANGE" => words.next(),
            _ => None,
        };
        key.map(|key| slot(&String::from_utf8_lossy(key)))
    }

    /// Returns the keys of a vote.
    pub(crate) fn vote_keys(&self) -> Vec<String> {
        let words: Vec<_> = self.words().take(4).collect();
        // `EVALSHA digest count key …`, or `SET key …`.
        let (from, count) = match words[..] {
            [b"EVALSHA" | b"EVAL", _, count, _] => {
                (3, std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()))
            }
            _ => (1, Some(1)),
        };
        let keys = self.words().skip(from).take(count.unwrap_or(0));
        keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    /// Returns all arguments, of several commands one after the other.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        arguments(&self.bytes)
    }
}

/// The redirects of a command so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Redirects {
    /// Whether it needs the `ASKING` prefix, because the key is migrating to this server.
    pub(crate) asking: bool,
    /// When the first server redirected it, or when it began to wait for the map.
    pub(crate) since: Option<Instant>,
}
