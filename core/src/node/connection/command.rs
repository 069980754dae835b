//! What goes into a connection's queue, and what its node may know without asking.

use std::sync::atomic::{AtomicBool, Ordering};
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

#[derive(Clone)]
pub(in super::super) struct Question {
    pub(in super::super) bytes: Vec<u8>,
    /// What the answer must end with; `None`: whatever it is, nobody reads it.
    pub(in super::super) echo: Option<Box<str>>,
    pub(in super::super) purpose: Purpose,
    pub(in super::super) patience: Duration,
}

pub(in super::super) struct Command {
    pub(super) question: Question,
    pub(super) answer: oneshot::Sender<Result<Value, Fault>>,
    /// Sent again once, after the server had forgotten the scripts.
    pub(super) again: bool,
}

impl Command {
    pub(in super::super) fn new(
        question: Question,
        answer: oneshot::Sender<Result<Value, Fault>>,
    ) -> Self {
        Self { question, answer, again: false }
    }

    /// A command whose answer nobody waits for.
    pub(super) fn unheard(question: Question) -> Self {
        Self::new(question, oneshot::channel().0)
    }
}

#[derive(Default)]
pub(in super::super) struct Link {
    pushes: AtomicBool,
}

impl Link {
    pub(in super::super) fn pushes(&self) -> bool {
        self.pushes.load(Ordering::Relaxed)
    }

    pub(super) fn opened(&self, pushes: bool) {
        self.pushes.store(pushes, Ordering::Relaxed);
    }

    pub(super) fn closed(&self) {
        self.pushes.store(false, Ordering::Relaxed);
    }
}
