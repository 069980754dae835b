//! What a session reads.

use std::io;
use std::task::{Context, Poll};

use redis::Value;
use tokio::io::Interest;

use super::{LARGEST, READ, Session, broken};
use crate::node::Fault;

/// TLS may have read ahead of what it handed out: it is asked until it has nothing, or so often.
const AHEAD: usize = 64;

/// Said of no bytes.
const CLOSED: &str = "the server closed the connection";

/// Nothing was there, which says nothing.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What was read.
#[derive(Default)]
pub(crate) struct Read {
    /// So much that others should have their turn.
    much: bool,
    /// Something was there.
    some: bool,
    /// All that was there.
    all: bool,
}

impl Read {
    /// Whether something was read, and may not have been all.
    pub(crate) fn leaves_more(&self) -> bool {
        self.some && !self.all
    }
}

impl Session {
    /// Reads what is there, and asks what follows from it.
    pub(crate) fn read(&mut self) -> Read {
        let (mut read, probing) = (Read::default(), self.dialogue.is_probing());
        if self.lent {
            return read;
        }
        for _ in 0..AHEAD {
            if self.broken.is_some() {
                return read;
            }
            match self.socket.read(&mut self.read) {
                Ok(0) => self.breaks(Fault::new(CLOSED)),
                Ok(count) => {
                    read.much |= count > READ / 4;
                    self.understand_read(count);
                    read.some = true;
                    if !self.socket.is_tls() {
                        read.all = count < READ;
                        break;
                    }
                    // A short read says nothing over TLS: it hands out a few records at a time.
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    read.all = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.breaks(broken(&error)),
            }
        }
        while self.broken.is_none() {
            let kept = self.socket.read_kept(&mut self.read);
            if kept == 0 {
                break;
            }
            self.understand_read(kept);
        }
        self.write_after(probing);
        read
    }

    /// A thread may wait in the socket for what comes, and nobody else reads until [`Session::take_receipt`]. `None`: somebody
    /// else does, or has to.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn lend(&mut self) -> Option<i32> {
        let useless = self.broken.is_some() || self.lent || self.is_kept() || !self.is_open();
        if useless || !self.may_lend {
            return None;
        }
        self.lent = true;
        Some(self.descriptor())
    }

    /// Whether a thread waits in the socket.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent
    }

    /// What came to the thread that waited.
    pub(crate) fn take_receipt(&mut self, came: io::Result<&[u8]>) {
        let probing = self.dialogue.is_probing();
        self.lent = false;
        match came {
            Ok([]) => self.breaks(Fault::new(CLOSED)),
            Ok(bytes) => self.understand(bytes),
            Err(error) if is_silence(&error) => {}
            Err(error) => self.breaks(broken(&error)),
        }
        self.write_after(probing);
    }

    /// So many bytes were read.
    fn understand_read(&mut self, count: usize) {
        let read = std::mem::take(&mut self.read);
        self.understand(&read[..count]);
        self.read = read;
    }

    /// These bytes came.
    fn understand(&mut self, bytes: &[u8]) {
        // Once the client is gone, answers that do not come are waited for no longer, whatever else is said.
        if self.more {
            self.dialogue.pipeline.heard();
        }
        self.reader.unread.extend_from_slice(bytes);
        self.reader.came(bytes.len());
        while self.broken.is_none() {
            let fault = match self.reader.next() {
                Ok(None) if self.reader.partial() > LARGEST => {
                    self.dialogue.read_long();
                    Some(Fault::new("a reply is larger than any that a lock needs"))
                }
                Ok(None) => return,
                Ok(Some(Value::Push { kind, data })) => self.dialogue.hearer.pushed(&kind, &data),
                Ok(Some(value)) => self.dialogue.answered(value),
                Err(_) => Some(Fault::new("the server's data is not in the Redis protocol")),
            };
            self.broken = fault;
        }
    }

    /// Waits in its own task: does what there is to do, as soon as there is something; true if it was much.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.is_unwritten() && self.socket.poll_writable(cx).is_ready() {
            self.write_on();
            if self.is_unwritten() {
                self.socket.spent(Interest::WRITABLE);
                // For the room that comes next.
                let _ = self.socket.poll_writable(cx);
            }
        }
        if self.lent {
            // Whoever waits in it calls afterwards.
            return if self.broken.is_some() { Poll::Ready(false) } else { Poll::Pending };
        }
        match self.socket.poll_readable(cx) {
            Poll::Ready(Ok(())) => {
                let read = self.read();
                if read.all {
                    self.socket.spent(Interest::READABLE);
                }
                Poll::Ready(read.much)
            }
            Poll::Ready(Err(error)) => {
                self.breaks(broken(&error));
                Poll::Ready(false)
            }
            Poll::Pending if self.broken.is_some() => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    }
}
