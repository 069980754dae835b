//! Reads the bytes of a session, and passes them to the protocol, which delivers the replies of all callers.

use std::io;
use std::task::{Context, Poll};

use tokio::io::Interest;

use super::{READ, Session};
use crate::node::Fault;

/// TLS may have read ahead of what it returned. It is read until it is empty, or this often.
const AHEAD: usize = 64;

const CLOSED: &str = "the server closed the connection";

/// The result of a read.
#[derive(Default)]
pub(crate) struct Read {
    /// Whether it was so much that other connections must have their turn.
    much: bool,
    /// Whether there was something.
    some: bool,
    /// Whether nothing is left.
    all: bool,
}

impl Read {
    /// Whether something was read, and something may be left.
    pub(crate) fn leaves_more(&self) -> bool {
        self.some && !self.all
    }
}

impl Session {
    /// Reads the available bytes.
    pub(crate) fn read_available(&mut self) -> Read {
        let mut read = Read::default();
        for _ in 0..AHEAD {
            if self.broken.is_some() {
                return read;
            }
            match self.socket.read(&mut self.read) {
                Ok(0) => self.breaks(Fault::new(CLOSED)),
                Ok(count) => {
                    read.much |= count > READ / 4;
                    self.decode_read(count);
                    read.some = true;
                    if !self.socket.is_tls() {
                        read.all = count < READ;
                        break;
                    }
                    // Over TLS, which returns a few records at a time, more may follow a short read.
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    read.all = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.breaks(Fault::broken(&error)),
            }
        }
        while self.broken.is_none() {
            let kept = self.socket.read_kept(&mut self.read);
            if kept == 0 {
                break;
            }
            self.decode_read(kept);
        }
        read
    }

    fn decode_read(&mut self, count: usize) {
        let read = std::mem::take(&mut self.read);
        self.decode(&read[..count]);
        self.read = read;
    }

    fn decode(&mut self, bytes: &[u8]) {
        // Once the client is gone, outstanding replies are not awaited any longer, whatever else arrives.
        if self.more {
            self.protocol.end_silence();
        }
        if self.broken.is_none() {
            let clock = &self.clock;
            self.broken = self.protocol.receive_bytes(bytes, &|| clock.now());
        }
    }

    /// For the connection's own task: writes and reads as soon as that is possible. Returns true if it read much.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.is_unwritten() && self.socket.poll_writable(cx).is_ready() {
            self.write_on();
            if self.is_unwritten() {
                self.socket.spent(Interest::WRITABLE);
                // Registers for the next room.
                let _ = self.socket.poll_writable(cx);
            }
        }
        match self.socket.poll_readable(cx) {
            Poll::Ready(Ok(())) => {
                let read = self.read_available();
                if read.all {
                    self.socket.spent(Interest::READABLE);
                }
                Poll::Ready(read.much)
            }
            Poll::Ready(Err(error)) => {
                self.breaks(Fault::broken(&error));
                Poll::Ready(false)
            }
            Poll::Pending if self.broken.is_some() => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    }
}
