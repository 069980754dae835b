//! The connection of a node, which several waiting threads and the connection's task use in turn: one is inside at a
//! time ([`Exclusive`]), and only that one writes or reads.
//!
//! A thread that waits for a reply writes the command and reads the reply itself. A hop to another thread and back
//! costs more than the rest of an acquire. No thread waits for the connection, so a thread that is suspended inside it
//! blocks only this connection. A forked child never uses the session of its parent.
//!
//! Any thread inside may write. One thread at a time has the reader role, and reads for all callers until no reply is
//! outstanding ([`role`]). Otherwise the connection's task reads. A thread that finds another one reading leaves its
//! commands to the task, which then reads for both, because passing the role between threads would cost as much. The
//! reading thread or task sends each result through the channel of its command (`InFlight`), which wakes the caller.
//!
//! The driver that reads has its poller watch the socket. A change of this, as of the session, is made inside the
//! session.

mod role;
pub(super) mod session;
pub(super) mod task;
#[cfg(all(test, unix))]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::Notify;

use crate::drivers::{Driven, Poller, ReaderRole};
use crate::runtime::{Exclusive, Flush, Owned, Visitor};
use role::{Reader, Role};
use session::Session;

pub(crate) struct Connection {
    /// The open connection, if there is one.
    session: Exclusive<Option<Session>>,
    /// Wakes the task. A forked child does not use the connection, nor does anything after the program has closed its
    /// descriptor.
    call: Owned<Notify>,
    role: Role,
    /// The number of times that no thread takes the role, because two threads wanted it lately.
    crowd: AtomicU32,
    /// Whether the task checks regularly for silence, because the connection is in use.
    in_use: AtomicBool,
}

impl Connection {
    /// Creates a closed connection.
    pub(crate) fn new() -> Self {
        Self {
            session: Exclusive::new(None),
            call: Owned::new(Notify::new()),
            role: Role::new(),
            crowd: AtomicU32::new(0),
            in_use: AtomicBool::new(false),
        }
    }

    /// Completes after a call.
    pub(super) async fn task_woken(&self) {
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
                self.wake_task();
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
                self.role.give_to_task();
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
            self.task_woken().await;
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
        self.role.give_to_task();
    }

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
        let ran = catch_unwind(AssertUnwindSafe(|| {
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
        if session.wants_task() {
            self.delegate();
        } else if session.is_open() && is_unchecked() {
            self.wake_task();
        }
        result
    }
}

/// The number of times that no thread takes the role after two threads wanted it. They will probably meet again, and
/// the task then reads for both at a lower cost.
const CROWD: u32 = 1024;

/// What became of the use of a session by a thread.
enum Entered<T> {
    Done(T),
    /// Another thread is inside, and writes the submitted commands before it leaves. It may be suspended.
    Busy,
    /// There is no session, or its use panicked.
    Closed,
}

impl Connection {
    /// Acts on the session, then writes the submitted commands.
    fn enter<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Entered<T> {
        if !self.call.is_ours() {
            return Entered::Closed;
        }
        match self.with_session(Visitor::Thread, |session| self.run(session, act)) {
            Some(Some(result)) => Entered::Done(result),
            Some(None) => Entered::Closed,
            None => Entered::Busy,
        }
    }

    /// Whether a thread may take the reader role, unless a reply is outstanding.
    fn may_take_role(&self) -> bool {
        let less = |crowd: u32| crowd.checked_sub(1);
        if self.crowd.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return false;
        }
        let reader = self.role.reader();
        if reader == Reader::Thread {
            self.crowd.store(CROWD, Ordering::Relaxed);
        }
        reader == Reader::Task
    }

    /// Takes the reader role, unless a reply is outstanding, which the task reads. Called before the write.
    fn take_role(
        &self,
        session: &mut Session,
        poller: Option<(&Arc<Poller>, u64)>,
    ) -> Option<ReaderRole> {
        let number = if session.is_open() { None } else { self.role.take() }?;
        let descriptor = session.watch(poller).ok()?;
        Some(ReaderRole { number, descriptor })
    }
}

impl Driven for Connection {
    fn submit(
        &self,
        known: Option<ReaderRole>,
        poller: Option<(&Arc<Poller>, u64)>,
    ) -> Option<ReaderRole> {
        let is_valid = |known: &ReaderRole| self.role.is(known.number);
        if known.as_ref().is_some_and(is_valid) || self.may_take_role() {
            // Another thread may just have read the last reply, which ends the role.
            let take = |session: &mut Session| {
                known.filter(is_valid).or_else(|| self.take_role(session, poller))
            };
            if let Entered::Done(Some(role)) = self.enter(take) {
                return Some(role);
            }
        }
        // Another thread reads, or is inside and may be suspended.
        self.delegate();
        None
    }

    fn read_available(&self) -> bool {
        match self.enter(|session| session.read_available().leaves_more()) {
            Entered::Done(more) => more,
            Entered::Busy => {
                self.delegate();
                false
            }
            Entered::Closed => false,
        }
    }

    fn descriptor(&self, role: ReaderRole) -> Option<i32> {
        self.role.is(role.number).then_some(role.descriptor)
    }

    fn delegate(&self) {
        self.role.give_to_task();
        self.wake_task();
    }

    fn write_and_delegate(&self) {
        self.enter(|_| ());
        self.delegate();
    }

    fn supervise(&self) {
        // The regular checks take the submitted commands. They end if there are none.
        if !self.in_use.swap(true, Ordering::SeqCst) {
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        // A forked child has no such task, and a lock inside `Notify` may be held forever.
        self.call.ours().into_iter().for_each(Notify::notify_one);
    }
}

impl Flush for Connection {
    fn flush(&self) {
        // A thread that is inside leaves soon, unless it is suspended.
        let _ = (0..100).find(|_| {
            let is_busy = matches!(self.enter(Session::cancel_votes), Entered::Busy);
            if is_busy {
                std::thread::yield_now();
            }
            !is_busy
        });
        self.delegate();
    }
}
