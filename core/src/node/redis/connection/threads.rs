//! A connection, for the threads and event loops that wait for its replies. If two of them want the reader role, the
//! connection's task soon reads for both.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::role::Taken;
use super::{CLOSED, Connection, Session};
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
pub(crate) struct ReaderRole(u64);

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

/// No function waits for a thread that uses the connection. Only a change of the descriptor that a loop watches takes a
/// mutex, for one system call.
impl Connection {
    /// Writes the submitted commands. Returns false if another thread uses the connection, which then writes them.
    pub(crate) fn write(&self) -> bool {
        self.use_on_thread(|_| ()).is_some()
    }

    /// Writes the submitted commands, and reads the available replies.
    pub(crate) fn read(&self) -> ReadOutcome {
        match self.use_on_thread(|session| session.read().leaves_more()) {
            None => ReadOutcome::Busy,
            Some(Some(true)) => ReadOutcome::More,
            Some(_) => ReadOutcome::All,
        }
    }

    /// Has the background thread write the submitted commands and read all outstanding replies.
    pub(crate) fn delegate(&self) {
        self.delegated.store(true, Ordering::SeqCst);
        self.call();
    }

    /// Has the background thread write the submitted commands if this thread has not written them at its next tick.
    pub(crate) fn supervise(&self) {
        // The regular checks take the submitted commands. They end if there are none.
        if !self.in_use.swap(true, Ordering::SeqCst) {
            self.call();
        }
    }

    /// Whether replies are outstanding.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Takes the reader role, if it is free and threads may read.
    pub(crate) fn take_role(&self) -> Option<ReaderRole> {
        if self.generation != fork_generation() {
            return None;
        }
        let less = |crowd: u32| crowd.checked_sub(1);
        if self.crowd.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return None;
        }
        match self.role.take() {
            Taken::Role(role) => Some(ReaderRole(role)),
            Taken::ByBackground => None,
            Taken::ByThread => {
                self.crowd.store(CROWD, Ordering::Relaxed);
                None
            }
        }
    }

    /// Returns the descriptor to wait for. Returns `None` if the role has ended.
    pub(crate) fn descriptor(&self, role: ReaderRole) -> Option<i32> {
        let descriptor = self.descriptor.load(Ordering::SeqCst);
        (self.role.is(role.0) && descriptor != CLOSED).then_some(descriptor)
    }

    /// Ends the role. The background thread reads the outstanding replies.
    pub(crate) fn release_role(&self, ReaderRole(role): ReaderRole) {
        if self.generation != fork_generation() {
            return;
        }
        // If the session has ended, the role may be another thread's by now.
        self.end_watch(|| self.role.release(role).then(|| self.descriptor.load(Ordering::SeqCst)));
        // Outstanding replies are read even if no caller waits for them.
        if self.is_open() {
            self.delegate();
        }
    }

    /// Has the loop with the role watch the connection under a number. Returns false if the role has ended, or if the
    /// descriptor cannot be watched.
    pub(crate) fn watch(&self, role: ReaderRole, poller: &Arc<Poller>, number: u64) -> bool {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a session that ends meanwhile removes it again.
        let descriptor = self.descriptor(role);
        let added = descriptor.is_some_and(|descriptor| poller.add(descriptor, number).is_ok());
        if added {
            *watcher = Some(Arc::clone(poller));
        }
        added
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
        if self.crowd.load(Ordering::Relaxed) > 0 || self.generation != fork_generation() {
            return false;
        }
        let receiver = self.with_session(Visitor::Thread, |session| {
            // Inside the session, whose task may end the role.
            session.as_mut().filter(|_| self.role.is(role.0)).and_then(Session::begin_receiving)
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

    /// Writes the submitted commands, then acts on the session. Returns `None` if another thread is inside, which then
    /// writes them, and `Some(None)` without a session.
    fn use_on_thread<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Option<Option<T>> {
        if self.generation != fork_generation() {
            return None;
        }
        self.with_session(Visitor::Thread, |session| self.run(session, act))
    }

    /// Makes a change after which no loop watches the returned descriptor any more.
    pub(super) fn end_watch(&self, change: impl FnOnce() -> Option<i32>) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(descriptor) = change()
            && let Some(poller) = watcher.take()
        {
            poller.remove(descriptor);
        }
    }
}

impl Flush for Connection {
    fn flush(&self) {
        self.delegate();
    }
}
