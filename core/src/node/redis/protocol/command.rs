//! Defines a command under way: its bytes, its purpose, and the form of its reply.
//!
//! Plain data. [`super::sending`] sends it, and [`super::replies`] handles its reply.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;
use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::node::redis::commands::durability::Durability;
use crate::node::redis::commands::encode::arguments;
use crate::node::redis::commands::reply;
use crate::node::{Fault, slot};
use crate::runtime::UnderWay;

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
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Delete { until, .. } => *until,
            _ => None,
        }
    }

    /// Whether it is a vote or a delete.
    pub(super) fn is_for_locks(&self) -> bool {
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

/// A kind of commands for one key of which many can be sent in a single request ([`super::combined`]).
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
    pub(super) kind: BatchKind,
    positions: [u16; 3],
}

impl Combinable {
    /// Describes a command. `None` if it is too long to be combined.
    pub(crate) fn new(kind: BatchKind, positions: [usize; 3]) -> Option<Self> {
        let [from, to, end] = positions.map(|at| u16::try_from(at).ok());
        Some(Self { kind, positions: [from?, to?, end?] })
    }

    /// Returns the encoded key, and the encoded arguments after it. For an attempt, the latter is the whole `SET`.
    pub(super) fn parts(self, command: &Command) -> (&[u8], &[u8]) {
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
        let at = match words.next()? {
            b"EVALSHA" | b"EVAL" => 2,
            b"SET" | b"GETRANGE" => 0,
            _ => return None,
        };
        words.nth(at).map(|key| slot(&String::from_utf8_lossy(key)))
    }

    /// Returns the keys of a vote.
    pub(super) fn vote_keys(&self) -> Vec<String> {
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

/// A command that was passed to the connection and has no reply yet.
pub(crate) struct InFlight {
    /// The command, which may have to be sent again.
    pub(crate) command: Command,
    /// Receives the reply. Closed when the caller no longer waits, and a first vote is then not sent any more.
    pub(crate) answer: oneshot::Sender<Result<Value, Fault>>,
    /// The redirects so far.
    pub(crate) redirects: Redirects,
    /// Whether it was sent again after the server had lost the scripts. This is done once.
    pub(crate) again: bool,
    /// Whether the `SET` succeeded, after the first of two replies.
    pub(crate) set: Option<bool>,
    /// When replicas and disks must have confirmed a grant.
    pub(crate) confirm_by: Option<Instant>,
    /// Whether it is a delete of a vote that was never sent, so that it need not become pending.
    pub(crate) unneeded: bool,
    /// Counts a delete for its node until it is answered, redirected or pending.
    counted: Option<Arc<()>>,
    /// Counts a redirected delete until any server has confirmed it.
    rerouted: Option<Arc<()>>,
    /// Makes the end of the process wait. Used for deletes only, because deletes remove whatever other commands leave
    /// behind.
    _under_way: Option<UnderWay>,
}

impl InFlight {
    /// Creates a command under way. `answer` receives its reply.
    pub(crate) fn new(command: Command, answer: oneshot::Sender<Result<Value, Fault>>) -> Self {
        let delete = matches!(command.purpose, Purpose::Delete { .. });
        let under_way = delete.then(UnderWay::begin);
        Self {
            command,
            answer,
            redirects: Redirects::default(),
            again: false,
            set: None,
            confirm_by: None,
            unneeded: false,
            counted: None,
            rerouted: None,
            _under_way: under_way,
        }
    }

    pub(crate) fn without_caller(command: Command) -> Self {
        Self::new(command, oneshot::channel().0)
    }

    /// Counts a delete from now on, and no longer for another node.
    pub(crate) fn count(&mut self, counter: &Arc<()>) {
        if self.is_delete() {
            self.counted = Some(Arc::clone(counter));
        }
    }

    /// Ends the count of a delete that is answered or not needed.
    pub(crate) fn stop_counting(&mut self) {
        (self.counted, self.rerouted) = (None, None);
    }

    pub(crate) fn is_delete(&self) -> bool {
        matches!(self.command.purpose, Purpose::Delete { .. })
    }

    /// Called at a redirect. From now on the cluster counts a delete instead of its node.
    pub(crate) fn count_rerouted(&mut self, counter: &Weak<()>) {
        if self.is_delete() {
            self.rerouted = self.rerouted.take().or_else(|| counter.upgrade());
            self.counted.take_if(|_| self.rerouted.is_some());
        }
    }

    /// Discards all replies, because the command is sent again to another server.
    pub(crate) fn forget_answers(&mut self) {
        (self.again, self.set, self.unneeded) = (false, None, false);
    }

    /// Whether the value can be the reply, or the one of its two that is due.
    pub(super) fn fits(&self, value: &Value) -> bool {
        match &self.command.expects {
            // The first of two replies. That of `CLIENT CACHING` has the same form as that of `SET`.
            _ if self.has_two_answers() => reply::sets(value),
            Expects::Anything => true,
            Expects::Echo(echo) => reply::echoes(value, echo),
            Expects::Token(token) => reply::says_ours(value, token),
            Expects::Owner => reply::owns(value),
            Expects::Durable(wanted) => wanted.fits(value),
        }
    }

    /// Takes the first of two replies. Returns the last one.
    pub(crate) fn last_reply(&mut self, value: Value) -> Option<Value> {
        if self.has_two_answers() {
            self.set = Some(value == Value::Okay);
            return None;
        }
        Some(value)
    }

    /// Returns the prefix, which has a separate reply.
    pub(crate) fn before(&self) -> &'static [u8] {
        match (self.redirects.asking, self.command.untracked) {
            (true, _) => ASKING,
            (false, true) => UNTRACKED,
            (false, false) => &[],
        }
    }

    /// Returns how it can be combined with others. A command that is sent again, or after a prefix, cannot.
    pub(super) fn combinable(&self) -> Option<Combinable> {
        self.command.combinable.filter(|_| !self.again && self.before().is_empty())
    }

    pub(crate) fn length(&self) -> usize {
        self.before().len() + self.command.bytes.len()
    }

    /// Whether its effect is no longer wanted, because no caller waits for it.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.answer.is_closed() && self.command.purpose.requires_waiting_caller(self.redirects)
    }

    /// Whether the first of its two replies is still to come.
    fn has_two_answers(&self) -> bool {
        let two = !self.before().is_empty() || matches!(self.command.expects, Expects::Owner);
        two && self.set.is_none()
    }
}
