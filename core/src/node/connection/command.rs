//! What goes into a connection's queue, and what its node may know without asking.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::sync::oneshot;

use super::super::Fault;
use crate::clock::Instant;

/// What a command is for decides what becomes of it when the connection dies.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Purpose {
    /// A lease's first vote: subject to the restart guard, and not sent once nobody listens for it.
    FirstVote,
    Question,
    /// Owed until then: if its answer was never read, it goes first on the next connection.
    Delete {
        until: Instant,
    },
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
}

#[derive(Clone)]
pub(in super::super) struct Question {
    pub(in super::super) bytes: Vec<u8>,
    pub(in super::super) expects: Expects,
    pub(in super::super) purpose: Purpose,
    pub(in super::super) patience: Duration,
}

pub(in super::super) struct Command {
    pub(super) question: Question,
    pub(super) answer: oneshot::Sender<Result<Value, Fault>>,
    /// Sent again once, after the server had forgotten the scripts.
    pub(super) again: bool,
    /// The first of two answers is there.
    pub(super) half: bool,
}

impl Command {
    pub(in super::super) fn new(
        question: Question,
        answer: oneshot::Sender<Result<Value, Fault>>,
    ) -> Self {
        Self { question, answer, again: false, half: false }
    }

    /// A command whose answer nobody waits for.
    pub(super) fn unheard(question: Question) -> Self {
        Self::new(question, oneshot::channel().0)
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
        let left = match *self.votes_from.lock().unwrap_or_else(PoisonError::into_inner) {
            VotesFrom::Now => return None,
            VotesFrom::Never => {
                let text = "its uptime cannot be read (INFO), so it takes no first vote while restart_guard is on";
                return Some(Fault::new(text));
            }
            VotesFrom::At(from) => from.since(now),
        };
        (!left.is_zero()).then(|| {
            let left = left.as_secs_f64();
            Fault::new(format!("it restarted within restart_guard and votes again in {left:.1} s"))
        })
    }

    pub(super) fn opened(&self, pushes: bool, votes_from: VotesFrom) {
        self.pushes.store(pushes, Ordering::Relaxed);
        *self.votes_from.lock().unwrap_or_else(PoisonError::into_inner) = votes_from;
    }

    pub(super) fn closed(&self) {
        self.pushes.store(false, Ordering::Relaxed);
    }
}
