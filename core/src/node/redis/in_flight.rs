//! A command on its way: what goes into a connection's queue, and what its answer must look like.
//!
//! Plain data: it is made by [`super::commands`], queued by [`super::pipeline`] and judged by
//! [`super::answers`].

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;
use tokio::sync::oneshot;

use super::durability::Durability;
use super::parts::Parts;
use super::words::Words;
use crate::clock::Instant;
use crate::exit::UnderWay;
use crate::node::Fault;

/// What a command is for decides what becomes of it when the connection dies.
#[derive(Clone)]
pub(crate) enum Purpose {
    /// A lease's first vote: subject to the restart guard, and not sent once nobody listens for it. `sent`: this is
    /// the second question for it.
    FirstVote { token: Arc<str>, sent: bool },
    /// A later one: it, too, may put its token on a key.
    Heal(Arc<str>),
    /// What is ours is to live longer: nothing is owed for it. What is asked then, where this only asks whose it is.
    Keep(Option<Box<Command>>),
    /// Whether replicas and disks have what was written.
    Confirm,
    /// Nothing is owed for it.
    Plain,
    /// Answered as soon as there is a connection, and not sent.
    Ready,
    /// If its answer was never read, it is owed on the next connection. The keys live for `owed` at most; `until` then
    /// is set once it is owed.
    Delete { token: Arc<str>, owed: Duration, until: Option<Instant> },
    /// A delete of these keys whoever has them: how it begins, and what its first answer leads to.
    Force {
        keys: Arc<[String]>,
        begin: fn(&[String]) -> Command,
        then: fn(&[String], &Value) -> Option<Command>,
    },
    /// How old the server is, asked for again.
    Age,
    /// Whether an idle connection still leads to the server: commands wait for the reply.
    Probe,
}

impl Purpose {
    /// Whether it must not be carried out for nobody: a first vote, or one that was sent on from another server and may
    /// come behind its own delete.
    pub(crate) fn is_for_who_listens(&self, detour: Detour) -> bool {
        match self {
            Self::FirstVote { .. } => true,
            Self::Heal(_) => detour.hops > 0,
            _ => false,
        }
    }

    /// Whether it asks for a lease, or for more of one.
    pub(crate) fn is_vote(&self) -> bool {
        matches!(self, Self::FirstVote { .. } | Self::Heal(_) | Self::Keep(None))
    }
}

/// Which answer a command can have; another one is an answer to something else.
#[derive(Clone)]
pub(super) enum Expects {
    /// Whatever it is, nobody reads it.
    Anything,
    /// One that ends with this.
    Echo(Arc<str>),
    /// That, or this token alone: all was ours.
    Token(Arc<str>),
    /// Two: that of a `SET NX`, and the owner of a key or nothing.
    Owner,
    /// The server's own time.
    Time,
    /// As many as there are commands in it.
    Parts(Parts),
    /// On how many replicas and disks it is.
    Durable(Durability),
}

/// Goes before a command whose reads the server is not to remember: `CLIENT CACHING NO`, under tracking by
/// `OPTOUT`. A key that is read while it is absent stays in the server's table until somebody writes it: one entry
/// for each name that was ever inspected, or whose delete came too late.
pub(super) const UNTRACKED: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$2\r\nNO\r\n";

/// Goes before a command for a key that is on its way to a cluster's other server, which serves it to whoever knows.
/// It cannot be said together with [`UNTRACKED`]: each ends with the next command.
pub(super) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// A command for the server, with all that is known of its answer.
#[derive(Clone)]
pub(crate) struct Command {
    /// As it goes over the wire.
    pub(super) bytes: Vec<u8>,
    /// What its answer must look like.
    pub(super) expects: Expects,
    /// What becomes of it when its connection dies.
    pub(super) purpose: Purpose,
    /// How long its caller listens: a server is given at least as long before it counts as dead.
    pub(super) timeout: Duration,
    /// The server is not to remember that these keys were read here: nobody waits to be told of them.
    pub(super) untracked: bool,
}

impl Command {
    /// The first of its keys, which has the hash slot of all; `None`: it has none.
    ///
    /// Read from the bytes, where it is wanted: that is rarely, and a key each would be much to keep.
    pub(super) fn key(&self) -> Option<Cow<'_, str>> {
        if let Purpose::Force { keys, .. } = &self.purpose {
            return keys.first().map(|key| Cow::Borrowed(key.as_str()));
        }
        // `EVALSHA digest count key`, `EVAL script count key`, or the first in a transaction, or `SET key`.
        let mut words = self.words();
        let at = match words.next()? {
            b"EVALSHA" | b"EVAL" => 2,
            b"MULTI" => 1,
            b"SET" | b"GETRANGE" | b"DELIFEQ" | b"DELEX" => 0,
            _ => return None,
        };
        words.nth(at).map(String::from_utf8_lossy)
    }

    /// Which keys it deletes whoever has them.
    pub(super) fn forced_keys(&self) -> Arc<[String]> {
        let Purpose::Force { keys, .. } = &self.purpose else { return Arc::default() };
        Arc::clone(keys)
    }

    /// All its words, one command's behind the other's.
    pub(super) fn words(&self) -> impl Iterator<Item = &[u8]> {
        Words::of(&self.bytes)
    }
}

/// How a command came to a server that was not asked first.
#[derive(Clone, Copy, Default)]
pub(crate) struct Detour {
    /// The key is on its way here: the server is told that we know.
    pub(crate) asking: bool,
    /// How many servers have sent it on.
    pub(crate) hops: u32,
    /// When the first one did.
    pub(crate) since: Option<Instant>,
}

/// A command that was given to the connection and has no answer yet.
pub(crate) struct InFlight {
    /// As it was asked: a delete may have to be asked again.
    pub(super) command: Command,
    /// To whoever asked. Closed once nobody listens: then a first vote is not sent any more.
    pub(super) answer: oneshot::Sender<Result<Value, Fault>>,
    /// How it came here, if it was not asked here first.
    pub(super) detour: Detour,
    /// Sent again once, after the server had forgotten the scripts.
    pub(super) again: bool,
    /// Whether the `SET` was carried out, once the first of two answers is there.
    pub(super) set: Option<bool>,
    /// What is there of an answer in parts.
    parts: Vec<Value>,
    /// A grant counts only if replicas and disks have it by then.
    pub(super) confirm_by: Option<Instant>,
    /// A delete that a cluster's server sent on: counted until it is done, wherever it is.
    astray: Option<Arc<()>>,
    /// The end of the process waits for it.
    /// Only for deletes: whatever else is cut off at the end leaves nothing that these do not take away.
    _under_way: Option<UnderWay>,
}

impl InFlight {
    /// A command on its way from now on, to whoever holds the other end of `answer`.
    pub(super) fn new(command: Command, answer: oneshot::Sender<Result<Value, Fault>>) -> Self {
        let delete = matches!(command.purpose, Purpose::Delete { .. });
        let under_way = delete.then(UnderWay::begin);
        let (detour, confirm_by, parts) = (Detour::default(), None, Vec::new());
        Self {
            command,
            answer,
            detour,
            again: false,
            set: None,
            parts,
            confirm_by,
            astray: None,
            _under_way: under_way,
        }
    }

    /// The command that its answer leads to, for whoever asked.
    pub(super) fn followed_by(self, command: Command) -> Self {
        Self { detour: self.detour, ..Self::new(command, self.answer) }
    }

    /// A command whose answer nobody waits for.
    pub(super) fn unheard(command: Command) -> Self {
        Self::new(command, oneshot::channel().0)
    }

    /// It leaves the server that it was asked of. A delete is counted from now on.
    pub(super) fn goes_astray(&mut self, counter: &Weak<()>) {
        if matches!(self.command.purpose, Purpose::Delete { .. }) && self.astray.is_none() {
            self.astray = counter.upgrade();
        }
    }

    /// To be asked anew, elsewhere: nothing of an answer is there.
    pub(super) fn forget_answers(&mut self) {
        (self.again, self.set) = (false, None);
        self.parts.clear();
    }

    /// Whether it can be the part of the answer that is due.
    pub(super) fn fits_part(&self, parts: &Parts, value: &Value) -> bool {
        parts.fits(self.parts.len(), value)
    }

    /// The whole answer, once its last part is there.
    pub(super) fn whole(&mut self, value: Value) -> Option<Value> {
        if self.has_two_answers() {
            self.set = Some(value == Value::Okay);
            return None;
        }
        let Expects::Parts(parts) = &self.command.expects else { return Some(value) };
        self.parts.push(value);
        (self.parts.len() == parts.count()).then(|| parts.whole(std::mem::take(&mut self.parts)))
    }

    /// What goes before it on the wire, and has an answer of its own.
    pub(super) fn before(&self) -> &'static [u8] {
        match (self.detour.asking, self.command.untracked) {
            (true, _) => ASKING,
            (false, true) => UNTRACKED,
            (false, false) => &[],
        }
    }

    /// How many bytes it is on the wire.
    pub(super) fn length(&self) -> usize {
        self.before().len() + self.command.bytes.len()
    }

    /// Nobody listens to it any more, and so nobody wants what it would make.
    pub(super) fn is_unwanted(&self) -> bool {
        self.answer.is_closed() && self.command.purpose.is_for_who_listens(self.detour)
    }

    /// Whether its answer comes in two parts, of which the first is still to come.
    pub(super) fn has_two_answers(&self) -> bool {
        let two = !self.before().is_empty() || matches!(self.command.expects, Expects::Owner);
        two && self.set.is_none()
    }
}
