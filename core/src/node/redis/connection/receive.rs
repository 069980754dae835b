//! A thread that blocks in the socket for the next bytes.
//!
//! This takes one system call. To sleep on the descriptor and then read takes two. A thread in the socket cannot be woken,
//! and no other thread may read. It therefore only blocks there if no other thread wanted the reader role lately, while
//! it waits for one reply of one server, and for [`RECEIVE`](crate::foreground::RECEIVE) at most.
//!
//! The thread is not inside the session meanwhile. It owns its buffer, and shares the socket, which stays open until the
//! last user drops it. A thread that is suspended there can therefore delay no other thread.

use std::sync::atomic::Ordering;

use super::Connection;
use crate::foreground::ReaderRole;
use crate::node::redis::session::Session;
use crate::runtime::{Visitor, fork_generation};

/// The maximum number of bytes at once. The reply to one thread is shorter. The rest stays in the socket.
const RECEIVED: usize = 2048;

impl Connection {
    /// Blocks until bytes arrive, and handles them. Returns false if none arrived, or if the thread must not block.
    pub(super) fn receive_in(&self, role: ReaderRole) -> bool {
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
}
