//! A connection, for the threads and event loops that wait for its replies. If two of them want the reader role, the
//! connection's task soon reads for both.

use std::sync::atomic::Ordering;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::{Arc, PoisonError};

use super::role::Taken;
use super::{CLOSED, Connection, Session};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::foreground::Poller;
use crate::foreground::{Read, ReaderRole, Way};
use crate::runtime::exit::Flush;
use crate::runtime::{Visitor, fork_generation};

/// The number of times that no thread takes the role after two threads wanted it. They will probably meet again, and the
/// task then reads for both at a lower cost.
const CROWD: u32 = 1024;

impl Way for Connection {
    fn write(&self) -> bool {
        self.use_on_thread(|_| ()).is_some()
    }

    fn read(&self) -> Read {
        match self.use_on_thread(|session| session.read().leaves_more()) {
            None => Read::Busy,
            Some(Some(true)) => Read::More,
            Some(_) => Read::All,
        }
    }

    fn delegate(&self) {
        self.delegated.store(true, Ordering::SeqCst);
        self.call();
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn supervise(&self) {
        // The regular checks take the submitted commands. They end if there are none.
        if !self.in_use.swap(true, Ordering::SeqCst) {
            self.call();
        }
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    fn take_role(&self) -> Option<ReaderRole> {
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

    fn descriptor(&self, role: ReaderRole) -> Option<i32> {
        let descriptor = self.descriptor.load(Ordering::SeqCst);
        (self.role.is(role.0) && descriptor != CLOSED).then_some(descriptor)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn receive(&self, role: ReaderRole) -> bool {
        self.receive_in(role)
    }

    fn release_role(&self, ReaderRole(role): ReaderRole) {
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

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn watch(&self, role: ReaderRole, poller: &Arc<Poller>, number: u64) -> bool {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a session that ends meanwhile removes it again.
        let descriptor = self.descriptor(role);
        let added = descriptor.is_some_and(|descriptor| poller.add(descriptor, number).is_ok());
        if added {
            *watcher = Some(Arc::clone(poller));
        }
        added
    }
}

impl Flush for Connection {
    fn flush(&self) {
        self.delegate();
    }
}

impl Connection {
    /// Writes the submitted commands, then acts on the session. Returns `None` if another thread is inside, which then
    /// writes them, and `Some(None)` without a session.
    fn use_on_thread<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Option<Option<T>> {
        if self.generation != fork_generation() {
            return None;
        }
        self.with_session(Visitor::Thread, |session| self.run(session, act))
    }

    /// Makes a change after which no loop watches the returned descriptor any more.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn end_watch(&self, change: impl FnOnce() -> Option<i32>) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(descriptor) = change()
            && let Some(poller) = watcher.take()
        {
            poller.remove(descriptor);
        }
    }

    /// Makes a change. No loop watches a descriptor on this system.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[expect(clippy::unused_self, reason = "other systems have a watching loop")]
    pub(super) fn end_watch(&self, change: impl FnOnce() -> Option<i32>) {
        change();
    }
}
