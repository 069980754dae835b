//! The connection of a node, which several waiting threads and the connection's task use in turn.
//!
//! A thread that waits for a reply writes the command and reads the reply itself. A hop to another thread and back costs
//! more than the rest of an acquire. No thread waits for the connection ([`Exclusive`]), so a thread that is suspended
//! inside it blocks only this connection.
//!
//! One thread at a time has the reader role, and reads for all callers ([`role`]). If several threads want the role, the
//! connection's task reads instead, because passing the role between threads would cost as much.

mod role;
#[cfg(all(test, unix))]
mod tests;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::session::Session;
use crate::drivers::Poller;
use crate::runtime::{Exclusive, Visitor, fork_generation};
use role::Role;

pub(crate) use threads::{ReadOutcome, ReaderRole};

/// The descriptor of a closed connection.
const CLOSED: i32 = -1;

/// The connection of one node, between the threads that use it.
pub(crate) struct Connection {
    /// The open connection, if there is one.
    session: Exclusive<Option<Session>>,
    /// Wakes the task.
    call: Notify,
    /// Whether the task must read the replies to all commands so far.
    delegated: AtomicBool,
    /// Whether replies are outstanding.
    open: AtomicBool,
    /// Which thread may read.
    role: Role,
    /// The descriptor that threads wait on.
    descriptor: AtomicI32,
    /// The event loop that watches the descriptor. Locked only to change it, the descriptor or the end of a role.
    watcher: Mutex<Option<Arc<Poller>>>,
    /// The number of times that no thread takes the role, because two threads wanted it lately.
    crowd: AtomicU32,
    /// Whether the task checks regularly for silence, because the connection is in use.
    in_use: AtomicBool,
    /// The process of the task. A forked child does not use the connection.
    generation: u32,
}

impl Connection {
    /// Creates a closed connection.
    pub(super) fn new() -> Self {
        Self {
            session: Exclusive::new(None),
            call: Notify::new(),
            delegated: AtomicBool::new(false),
            open: AtomicBool::new(false),
            role: Role::new(),
            descriptor: AtomicI32::new(CLOSED),
            watcher: Mutex::new(None),
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
            let result = act(session);
            self.set_open(session.as_ref().is_some_and(Session::is_open));
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

    /// Has threads wait on this descriptor, of a new session.
    #[cfg(unix)]
    pub(super) fn opened(&self, descriptor: i32) {
        self.descriptor.store(descriptor, Ordering::SeqCst);
    }

    /// Lets threads read the connection, which carries only replies from now on.
    pub(super) fn share(&self) {
        self.role.share();
    }

    /// Ends every role, because the session has ended.
    pub(super) fn closed(&self) {
        self.open.store(false, Ordering::SeqCst);
        self.end_watch(|| {
            self.role.end();
            Some(self.descriptor.swap(CLOSED, Ordering::SeqCst))
        });
    }

    /// Whether the task was asked to read since the last call of this function.
    pub(super) fn take_delegated(&self) -> bool {
        self.delegated.swap(false, Ordering::SeqCst)
    }

    /// Whether a thread has the reader role and commands were sent lately. A thread that sends none may not read any
    /// more, and would not notice that the connection ends.
    pub(super) fn is_read_by_thread(&self) -> bool {
        self.role.is_of_thread() && self.is_in_use()
    }

    /// Whether the task checks regularly for silence.
    pub(super) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::SeqCst)
    }

    /// Ends the regular checks, because no command was sent for a while.
    pub(super) fn unused(&self) {
        self.in_use.store(false, Ordering::SeqCst);
        // A thread that has just sent a command relied on the checks.
        if self.open.load(Ordering::SeqCst) {
            self.in_use.store(true, Ordering::SeqCst);
        }
    }

    fn set_open(&self, open: bool) {
        // A store costs as much as the rest of a write.
        if self.open.load(Ordering::SeqCst) != open {
            self.open.store(open, Ordering::SeqCst);
        }
    }

    /// Writes the submitted commands on a thread that waits, then acts on the session. Returns `None` if there is none,
    /// or after a panic.
    fn run<T>(
        &self,
        session: &mut Option<Session>,
        act: impl FnOnce(&mut Session) -> T,
    ) -> Option<T> {
        let session = session.as_mut()?;
        let received_from = session.is_received_from();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            session.take_received();
            session.write();
            let result = act(session);
            if self.is_read_by_thread() {
                session.leave_to_threads();
            }
            result
        }));
        // Reported by the task, as its own panic.
        let result = ran.map_err(|panic| session.panicked(panic)).ok();
        self.set_open(session.is_open());
        // The task checks for silence from now on.
        let unchecked = session.is_open()
            && !self.in_use.load(Ordering::SeqCst)
            && !self.in_use.swap(true, Ordering::SeqCst);
        // The task could not read while a thread received.
        let returned = received_from && !session.is_received_from();
        if unchecked || session.wants_task() || (returned && session.is_kept()) {
            self.call();
        }
        result
    }
}
