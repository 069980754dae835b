//! The connection of a node, which several waiting threads and the connection's task use in turn.
//!
//! A thread that waits for a reply writes the command and reads the reply itself. A hop to another thread and back costs
//! more than the rest of an acquire. No thread waits for the connection ([`Exclusive`]), so a thread that is suspended
//! inside it blocks only this connection.
//!
//! One thread at a time has the reader role, and reads for all callers until no reply is outstanding ([`role`]). Otherwise
//! the connection's task reads. A thread leaves its commands to the task if another thread reads, because passing the role
//! between threads would cost as much.
//!
//! The driver that reads has its poller watch the socket. A change of this, as of the session, is made inside the session.

mod role;
pub(super) mod session;
pub(super) mod task;
#[cfg(all(test, unix))]
mod tests;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::Notify;

use crate::runtime::{Exclusive, Visitor, fork_generation};
use role::{Reader, Role};
use session::Session;

pub(crate) use threads::{ReadOutcome, ReaderRole};

/// The connection of one node, between the threads that use it.
pub(crate) struct Connection {
    /// The open connection, if there is one.
    session: Exclusive<Option<Session>>,
    /// Wakes the task.
    call: Notify,
    /// The current reader.
    role: Role,
    /// The number of times that no thread takes the role, because two threads wanted it lately.
    crowd: AtomicU32,
    /// Whether the task checks regularly for silence, because the connection is in use.
    in_use: AtomicBool,
    /// The process of the task. A forked child does not use the connection.
    generation: u32,
}

impl Connection {
    /// Creates a closed connection.
    pub(crate) fn new() -> Self {
        Self {
            session: Exclusive::new(None),
            call: Notify::new(),
            role: Role::new(),
            crowd: AtomicU32::new(0),
            in_use: AtomicBool::new(false),
            generation: fork_generation(),
        }
    }

    /// Wakes the task.
    pub(crate) fn call(&self) {
        // A forked child has no such task, and a lock inside `Notify` may be held forever.
        if self.generation == fork_generation() {
            self.call.notify_one();
        }
    }

    /// Completes after a call.
    pub(super) async fn called(&self) {
        self.call.notified().await;
    }

    /// Uses the session, then does what other visitors came for meanwhile. Returns `None` if another thread is inside,
    /// which then does so for this one.
    fn with_session<T>(
        &self,
        visitor: Visitor,
        act: impl FnOnce(&mut Option<Session>) -> T,
    ) -> Option<T> {
        let (result, mut visitors) = self.session.try_with(visitor, act)?;
        loop {
            if visitors.include(Visitor::Task) {
                self.call();
            }
            if !visitors.include(Visitor::Thread) {
                return Some(result);
            }
            let write = |session: &mut Option<Session>| self.run(session, |_| ());
            match self.session.try_with(Visitor::Thread, write) {
                Some((_, others)) => visitors = others,
                None => return Some(result),
            }
        }
    }

    /// Uses the session for the task. Returns `None` if a thread is inside, which then calls the task.
    pub(super) fn try_use<T>(&self, act: impl FnOnce(&mut Option<Session>) -> T) -> Option<T> {
        self.with_session(Visitor::Task, |session| {
            let sent = session.as_ref().map_or(0, Session::sent);
            let result = act(session);
            // The task reads the replies to what it sends, because the thread with the role may be suspended.
            let reads = |session: &Session| session.sent() > sent || session.wants_task();
            if session.as_ref().is_some_and(reads) && self.is_read_by_thread() {
                self.role.call();
            }
            result
        })
    }

    /// Uses the session for the task, as soon as no thread is inside.
    pub(super) async fn use_by_task<T>(&self, mut act: impl FnMut(&mut Option<Session>) -> T) -> T {
        loop {
            if let Some(result) = self.try_use(&mut act) {
                return result;
            }
            self.called().await;
        }
    }

    /// [`Connection::use_by_task`] while there is a session.
    pub(super) async fn use_session<T>(&self, mut act: impl FnMut(&mut Session) -> T) -> Option<T> {
        self.use_by_task(|session| session.as_mut().map(&mut act)).await
    }

    /// Writes the submitted commands for the task. Threads may take the role afterwards, if the session permits that.
    pub(super) fn write_by_task(&self, session: &mut Session) {
        self.role.end_if(Reader::Called, || {
            session.write();
            !session.wants_task()
        });
    }

    /// Has the task read, because the thread with the role does not.
    pub(super) fn end_role(&self) {
        self.role.call();
    }

    /// Whether a thread has the reader role.
    pub(super) fn is_read_by_thread(&self) -> bool {
        self.role.reader() == Reader::Thread
    }

    /// Whether the task checks regularly for silence.
    pub(super) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::SeqCst)
    }

    /// Ends the regular checks, because no command was sent for a while. Called inside the session.
    pub(super) fn unused(&self) {
        self.in_use.store(false, Ordering::SeqCst);
    }

    /// Acts on the session on a thread that waits, then writes the submitted commands. Returns `None` if there is no
    /// session, or after a panic.
    fn run<T>(
        &self,
        session: &mut Option<Session>,
        act: impl FnOnce(&mut Session) -> T,
    ) -> Option<T> {
        let session = session.as_mut()?;
        let received_from = session.is_received_from();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            session.take_received();
            let result = act(session);
            self.role.end_if(Reader::Thread, || {
                session.write();
                !session.is_open()
            });
            result
        }));
        // Reported by the task, as its own panic.
        let result = ran.map_err(|panic| session.panicked(panic)).ok();
        // The task checks for silence from now on.
        let is_unchecked =
            || !self.in_use.load(Ordering::SeqCst) && !self.in_use.swap(true, Ordering::SeqCst);
        // The task could not read while a thread received.
        let returned = received_from && !session.is_received_from();
        if session.wants_task() {
            self.delegate();
        } else if session.is_open() && (is_unchecked() || (returned && !self.is_read_by_thread())) {
            self.call();
        }
        result
    }
}
