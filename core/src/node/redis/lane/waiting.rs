//! A thread that waits in the socket itself: one system call, where to sleep on it and to read it then is two.
//!
//! It hears no bell there, and while it is there nobody else may read. So it does that only where threads have not met in this
//! connection lately, for one answer of one server, and for a moment. What it is given it leaves here for whoever has the
//! session, which may be itself: bytes reach that in their order, and nobody waits for a lock.
//!
//! A socket that somebody waits in, or is about to, must not be closed: its number may be another's by then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::calls::receive;
use super::super::session::Session;
use super::super::socket::Socket;
use super::Lane;
use crate::foreground::{RECEIVE, Seat, Way};
use crate::runtime::background;
use crate::runtime::fork_generation;

impl Lane {
    /// Waits in the socket for what comes; false: nothing came, or this thread may not.
    pub(super) fn receive_at(&self, seat: Seat) -> bool {
        let alone = self.crowds.load(Ordering::Relaxed) == 0;
        if !alone || self.generation != fork_generation() {
            return false;
        }
        let something = self.receive_alone(seat);
        // Whatever came, also before: somebody else may have had the session, or looked for it while it was locked here.
        self.turn(false);
        something
    }

    fn receive_alone(&self, seat: Seat) -> bool {
        let Some(mut receipt) = self.receipts.last() else { return false };
        // Before the session is asked: whoever ends it afterwards sees that.
        self.receipts.turns();
        let came = self.lent_to(seat).map(|socket| {
            // Taken, or of a connection before this one: else the socket would not have been lent.
            receipt.came = None;
            receive(socket, &mut receipt.bytes)
        });
        self.receipts.turns();
        let something = matches!(came, Some(Ok(_)));
        if came.is_some() {
            receipt.came = came;
        }
        something
    }

    /// The socket, which is not closed until the receipt is free.
    fn lent_to(&self, seat: Seat) -> Option<i32> {
        let mut session = self.try_lock()?;
        let ours = self.role.load(Ordering::SeqCst) == seat.0;
        let socket = session.as_mut().filter(|_| ours).and_then(Session::lend);
        drop(session);
        // Whoever could not get it meanwhile.
        if self.again.load(Ordering::SeqCst) || self.missed.load(Ordering::SeqCst) {
            self.turn(false);
        }
        socket
    }

    /// Hands on what came, if somebody waited.
    pub(super) fn take_receipt(&self, session: &mut Session) {
        if !session.is_lent() {
            return;
        }
        // Locked: it waits still, or has something to hand on, and looks for whoever has the session afterwards.
        let Some(mut receipt) = self.receipts.last() else { return };
        if let Some(came) = receipt.came.take() {
            session.take_receipt(came.map(|count| &receipt.bytes[..count]));
        }
    }

    /// The connection has ended, and a thread waits in its socket: closed once that has left.
    pub(crate) fn close_later(&self, socket: Socket) {
        let receipts = Arc::clone(&self.receipts);
        let waits = receipts.waits();
        let close = async move {
            while waits.is_some() && receipts.waits() == waits {
                background::sleep(RECEIVE / 10).await;
            }
            drop(socket);
        };
        background::spawn(close).detach();
    }
}
