//! What goes into a connection's queue, and what its node may know without asking.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tokio::sync::oneshot;

use super::super::Fault;
use crate::clock::Instant;
use crate::exit::UnderWay;
use crate::spelling::spelled;

/// What a command is for decides what becomes of it when the connection dies.
#[derive(Clone)]
pub(in super::super) enum Purpose {
    /// A lease's first vote: subject to the restart guard, and not sent once nobody listens for it. `sent`: this is
    /// the second question for it.
    FirstVote {
        token: Arc<str>,
        sent: bool,
    },
    /// A later one: it, too, may put its token on a key.
    Heal(Arc<str>),
    Question,
    /// If its answer was never read, it is owed on the next connection. The keys live for `owed` at most; `until` then
    /// is set once it is owed.
    Delete {
        token: Arc<str>,
        owed: Duration,
        until: Option<Instant>,
    },
    /// A question for the server's own time, in us; what follows the answer is the delete of these keys by then.
    Force {
        keys: Arc<[String]>,
        delete: fn(&[String], u64) -> Question,
    },
    /// How old the server is, asked for again.
    Age,
}

/// Which answer a question can have; another one is an answer to something else.
#[derive(Clone)]
pub(in super::super) enum Expects {
    /// Whatever it is, nobody reads it.
    Anything,
    /// One that ends with this.
    Echo(Box<str>),
    /// Two: that of a `SET NX`, and the owner of a key or nothing.
    Owner,
    /// The server's own time.
    Time,
}

/// Goes before a command whose reads the server is not to remember: `CLIENT CACHING NO`, under tracking by `OPTOUT`.
pub(super) const UNTRACKED: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$2\r\nNO\r\n";

#[derive(Clone)]
pub(in super::super) struct Question {
    pub(in super::super) bytes: Bytes,
    pub(in super::super) expects: Expects,
    pub(in super::super) purpose: Purpose,
    pub(in super::super) patience: Duration,
    /// The server is not to remember that these keys were read here: nobody waits to be told of them.
    pub(in super::super) untracked: bool,
}

pub(in super::super) struct Command {
    pub(super) question: Question,
    pub(super) answer: oneshot::Sender<Result<Value, Fault>>,
    /// Sent again once, after the server had forgotten the scripts.
    pub(super) again: bool,
    /// The first of two answers, where it is there.
    pub(super) first: Option<Value>,
    /// The end of the process waits for it.
    _under_way: Option<UnderWay>,
}

impl Command {
    pub(in super::super) fn new(
        question: Question,
        answer: oneshot::Sender<Result<Value, Fault>>,
    ) -> Self {
        let delete = matches!(question.purpose, Purpose::Delete { .. });
        let under_way = delete.then(UnderWay::begin);
        Self { question, answer, again: false, first: None, _under_way: under_way }
    }

    /// A command whose answer nobody waits for.
    pub(super) fn unheard(question: Question) -> Self {
        Self::new(question, oneshot::channel().0)
    }

    /// How many bytes it is on the wire.
    pub(super) fn length(&self) -> usize {
        let before = if self.question.untracked { UNTRACKED.len() } else { 0 };
        before + self.question.bytes.len()
    }

    /// Whether its answer comes in two parts, of which the first is still to come.
    pub(super) fn has_two_answers(&self) -> bool {
        let two = self.question.untracked || matches!(self.question.expects, Expects::Owner);
        two && self.first.is_none()
    }
}

/// From when on a node may take first votes.
#[derive(Clone, Copy, Default)]
pub(super) enum VotesFrom {
    #[default]
    Now,
    At(Instant),
    Never,
}

#[derive(Default)]
pub(in super::super) struct Link {
    pushes: AtomicBool,
    votes_from: Mutex<VotesFrom>,
}

impl Link {
    pub(in super::super) fn pushes(&self) -> bool {
        self.pushes.load(Ordering::Relaxed)
    }

    /// Why the server takes no first vote now, if it does not.
    pub(in super::super) fn quarantine(&self, now: Instant) -> Option<Fault> {
        let left = match self.votes_from() {
            VotesFrom::Now => return None,
            VotesFrom::Never => {
                let option = spelled("restart_guard");
                return Some(Fault::new(format!(
                    "its uptime cannot be read (INFO), so it takes no first vote while {option} is on"
                )));
            }
            VotesFrom::At(from) => from.since(now),
        };
        (!left.is_zero()).then(|| {
            let (left, option) = (left.as_secs_f64(), spelled("restart_guard"));
            Fault::new(format!("it restarted within {option} and votes again in {left:.1} s"))
        })
    }

    pub(super) fn votes_from(&self) -> VotesFrom {
        *self.votes_from.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn vote_from(&self, votes_from: VotesFrom) {
        *self.votes_from.lock().unwrap_or_else(PoisonError::into_inner) = votes_from;
    }

    pub(super) fn opened(&self, pushes: bool, votes_from: VotesFrom) {
        self.pushes.store(pushes, Ordering::Relaxed);
        self.vote_from(votes_from);
    }

    pub(super) fn closed(&self) {
        self.pushes.store(false, Ordering::Relaxed);
    }
}
