//! A connection, for the threads and event loops that wait for its replies. If two of them want the reader role, the
//! connection's task soon reads for both.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::role::Reader;
use super::{Connection, Session};
use crate::drivers::Poller;
use crate::runtime::exit::Flush;
use crate::runtime::{Visitor, fork_generation};

/// The number of times that no thread takes the role after two threads wanted it. They will probably meet again, and the
/// task then reads for both at a lower cost.
const CROWD: u32 = 1024;

/// The maximum number of bytes that a thread receives at once. The reply to one thread is shorter. The rest stays in the
/// socket.
const RECEIVED: usize = 2048;

/// The right to read a connection for all callers. One thread or loop at a time has it.
#[derive(Clone, Copy)]
pub(crate) struct ReaderRole {
    role: u64,
    descriptor: i32,
}

/// The result of [`Connection::read`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Another thread uses the connection.
    Busy,
    /// Everything was read.
    All,
    /// More bytes may be available.
    More,
}

/// No function waits for a thread that uses the connection.
impl Connection {
    /// Writes the submitted commands. Returns false if another thread uses the connection, which then writes them.
    pub(crate) fn write(&self) -> bool {
        self.use_on_thread(|_| ()).is_some()
    }

    /// Writes the submitted commands of a driver if it reads the replies: it has the reader role, or may take it. Otherwise
    /// the background thread does both, for all callers together. The poller of the reader watches the connection under
    /// a number.
    pub(crate) fn submit(
        &self,
        known: Option<ReaderRole>,
        poller: Option<(&Arc<Poller>, u64)>,
    ) -> Option<ReaderRole> {
        let is_valid = |known: &ReaderRole| self.role.is(known.role);
        let reads = known.as_ref().is_some_and(is_valid) || self.may_take();
        let role = reads.then(|| {
            // Another thread may just have read the last reply, which ends the role.
            let take = |session: &mut Session| {
                known.filter(is_valid).or_else(|| self.take_role(session, poller))
            };
            self.use_on_thread(take)
        });
        // If not: another thread reads, or is inside and may be suspended.
        let role = role.flatten().flatten().flatten();
        if role.is_none() {
            self.delegate();
        }
        role
    }

    /// Reads the available replies, and writes the submitted commands.
    pub(crate) fn read(&self) -> ReadOutcome {
        match self.use_on_thread(|session| session.read().leaves_more()) {
            None => ReadOutcome::Busy,
            Some(Some(true)) => ReadOutcome::More,
            Some(_) => ReadOutcome::All,
        }
    }

    /// Has the background thread write the submitted commands and read all outstanding replies.
    pub(crate) fn delegate(&self) {
        self.role.call();
        self.call();
    }

    /// Has the background thread write the submitted commands if this thread has not written them at its next tick.
    pub(crate) fn supervise(&self) {
        // The regular checks take the submitted commands. They end if there are none.
        if !self.in_use.swap(true, Ordering::SeqCst) {
            self.call();
        }
    }

    /// Whether a thread may take the reader role, unless a reply is outstanding.
    fn may_take(&self) -> bool {
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
        let role = if session.is_open() { None } else { self.role.take() }?;
        let descriptor = session.watch(poller).ok()?;
        Some(ReaderRole { role, descriptor })
    }

    /// Returns the descriptor to wait for. Returns `None` if the role has ended.
    pub(crate) fn descriptor(&self, role: ReaderRole) -> Option<i32> {
        self.role.is(role.role).then_some(role.descriptor)
    }

    /// Blocks in the socket until bytes arrive, and handles them. Returns false if none arrived, or if the thread must
    /// not block.
    ///
    /// This takes one system call. To sleep on the descriptor and then read takes two. A thread in the socket cannot be
    /// woken, and no other thread may read. It therefore only blocks there if no other thread wanted the reader role
    /// lately, while it waits for one reply of one server, and for [`MAX_RECEIVE`](crate::node::MAX_RECEIVE) at most.
    ///
    /// The thread is not inside the session meanwhile. It owns its buffer, and shares the socket, which stays open until
    /// the last user drops it. A thread that is suspended there can therefore delay no other thread.
    pub(crate) fn receive(&self, role: ReaderRole) -> bool {
        if self.generation != fork_generation() {
            return false;
        }
        let receiver = self.with_session(Visitor::Thread, |session| {
            // Inside the session, whose task may end the role.
            session.as_mut().filter(|_| self.role.is(role.role)).and_then(Session::begin_receiving)
        });
        let Some(receiver) = receiver.flatten() else { return false };
        let mut buffer = [0; RECEIVED];
        let count = receiver.receive(&mut buffer);
        let any = count.is_ok();
        let mut bytes = Some(count.map(|count| &buffer[..count]));
        let handled = self.with_session(Visitor::Thread, |session| {
            // The session may have been replaced.
            if session.as_ref().is_some_and(|session| session.is_of(&receiver)) {
                self.run(session, |session| {
                    bytes.take().into_iter().for_each(|bytes| session.handle_received(bytes));
                });
            }
        });
        if handled.is_none() {
            // Another thread is inside. It takes the bytes, unless it has just left.
            bytes.take().into_iter().for_each(|bytes| receiver.leave(bytes));
            self.with_session(Visitor::Thread, |session| self.run(session, |_| ()));
        }
        any
    }

    /// Acts on the session, then writes the submitted commands. Returns `None` if another thread is inside, which then
    /// writes them, and `Some(None)` without a session.
    fn use_on_thread<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Option<Option<T>> {
        if self.generation != fork_generation() {
            return None;
        }
        self.with_session(Visitor::Thread, |session| self.run(session, act))
    }
}

impl Flush for Connection {
    fn flush(&self) {
        self.delegate();
    }
}
