//! The connections that a waiting thread uses, with its reader roles.

use std::sync::Arc;

use super::here::Here;
use super::way::{ReaderRole, Way};

/// One connection that a waiting thread uses.
pub(super) struct Used {
    pub(super) way: Arc<dyn Way>,
    role: Option<ReaderRole>,
    /// Whether the last command may have its reply soon, so that the thread blocks in the socket.
    is_quick: bool,
}

impl Used {
    /// Writes the submitted commands if this thread may read the replies. Otherwise the background thread does both, for
    /// all callers together.
    fn write(&mut self) {
        self.role = self.role.or_else(|| self.way.take_role());
        self.is_quick = true;
        // A thread that is inside the connection may be suspended.
        if self.role.is_none() || !self.way.write() {
            self.way.delegate();
        }
    }

    /// Returns the descriptor to wait on. Without outstanding replies, another thread may take the role.
    pub(super) fn descriptor(&mut self) -> Option<i32> {
        let role = self.role?;
        let descriptor = self.way.descriptor(role).filter(|_| self.way.is_open());
        if descriptor.is_none() {
            self.release_role();
        }
        descriptor
    }

    /// Blocks in the socket. Returns false if the thread must wait on the descriptor instead.
    pub(super) fn receive(&mut self) -> bool {
        let role = self.role.filter(|_| self.is_quick && self.way.is_open());
        self.is_quick = role.is_some_and(|role| self.way.receive(role));
        self.is_quick
    }

    fn release_role(&mut self) {
        if let Some(role) = self.role.take() {
            self.way.release_role(role);
        }
    }
}

/// All connections that a waiting thread uses.
#[derive(Default)]
pub(super) struct AllUsed(pub(super) Vec<Used>);

impl AllUsed {
    /// Writes the commands that were submitted since the last call.
    pub(super) fn write(&mut self) {
        for way in Here::take_asked() {
            if let Some(known) = self.0.iter_mut().find(|used| Arc::ptr_eq(&used.way, &way)) {
                known.write();
            } else {
                let mut used = Used { way, role: None, is_quick: true };
                used.write();
                self.0.push(used);
            }
        }
    }
}

/// The last commands are always written.
impl Drop for AllUsed {
    fn drop(&mut self) {
        self.write();
        self.0.iter_mut().for_each(Used::release_role);
    }
}
