//! The connections that a waiting thread or an event loop uses, with their reader roles.

use std::sync::Arc;

use super::here::Here;
use super::way::{ReaderRole, Way};

/// One connection that a thread or a loop uses.
pub(super) struct Used {
    pub(super) way: Arc<dyn Way>,
    role: Option<ReaderRole>,
    /// Whether a submitted command may not be written yet.
    pub(super) unwritten: bool,
}

impl Used {
    /// Creates one to which a command was submitted.
    pub(super) fn new(way: Arc<dyn Way>) -> Self {
        Self { way, role: None, unwritten: true }
    }

    /// Writes the submitted commands if this thread may read the replies. Otherwise the background thread does both, for
    /// all callers together. `watch` watches the connection for a new role, and returns false if it cannot.
    pub(super) fn write(&mut self, watch: impl FnOnce(&dyn Way, ReaderRole) -> bool) {
        if !std::mem::take(&mut self.unwritten) {
            return;
        }
        if self.descriptor().is_none() {
            self.role = self.way.take_role();
            if self.role.is_some_and(|role| !watch(&*self.way, role)) {
                self.release_role();
            }
        }
        // A thread that is inside the connection may be suspended.
        if self.role.is_none() || !self.way.write() {
            self.way.delegate();
        }
    }

    /// Returns the descriptor to wait on, if it has the reader role.
    pub(super) fn descriptor(&self) -> Option<i32> {
        self.way.descriptor(self.role?)
    }

    /// Returns its role, which may have ended.
    pub(super) fn role(&self) -> Option<ReaderRole> {
        self.role
    }

    pub(super) fn release_role(&mut self) {
        if let Some(role) = self.role.take() {
            self.way.release_role(role);
        }
    }
}

/// The background thread reads the outstanding replies.
impl Drop for Used {
    fn drop(&mut self) {
        self.release_role();
        if self.unwritten {
            self.way.write();
            self.way.delegate();
        }
    }
}

/// All connections that a waiting thread uses.
#[derive(Default)]
pub(super) struct AllUsed {
    pub(super) used: Vec<Used>,
    /// Whether the last command may have its reply soon, so that the thread blocks in the socket.
    is_quick: bool,
}

impl AllUsed {
    /// Writes the commands that were submitted since the last call.
    pub(super) fn write(&mut self) {
        for way in Here::take_asked() {
            let known = self.used.iter().position(|used| Arc::ptr_eq(&used.way, &way));
            let at = known.unwrap_or_else(|| {
                self.used.push(Used::new(way));
                self.used.len() - 1
            });
            self.used[at].unwritten = true;
            self.used[at].write(|_, _| true);
            self.is_quick = true;
        }
    }

    /// Blocks in the socket of the only connection. Returns false if the thread must wait on descriptors instead.
    pub(super) fn receive(&mut self) -> bool {
        let [used] = &self.used[..] else { return false };
        let role = used.role.filter(|_| self.is_quick && used.way.is_open());
        self.is_quick = role.is_some_and(|role| used.way.receive(role));
        self.is_quick
    }
}

/// The last commands are always written.
impl Drop for AllUsed {
    fn drop(&mut self) {
        self.write();
    }
}
