//! Implements non-blocking reads and writes on an open connection, from any thread in turn.
//!
//! A waiting thread uses the descriptor. A waiting task has its runtime watch the socket ([`Socket::poll_readable`]),
//! and an event loop its poller ([`Socket::watch`]). At most one of them watches it.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::Weak;
use std::task::{Context, Poll, ready};

#[cfg(unix)]
use std::os::fd::{AsRawFd, RawFd};
#[cfg(unix)]
use tokio::io::unix::AsyncFd;

use bytes::{Buf, BytesMut};
use tokio::io::Interest;

use super::transport::Transport;
use crate::drivers::Poller;
use crate::node::Fault;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConnection;

/// The minimum size of a read. With only the room that was left over, a third of the notifications arrived in two
/// reads, which woke a waiter one turn later.
const RECEIVED: usize = 1024;

/// An open connection that never blocks.
pub(crate) struct Socket {
    /// It is the first field, so that it is dropped before the socket is closed.
    #[cfg(unix)]
    watched: Watched,
    wire: Transport,
    #[cfg(feature = "tls")]
    tls: Option<Box<ClientConnection>>,
}

/// Whether a TLS stream ended without `close_notify`, as when a proxy closes its socket.
///
/// It is an end like any other. A reply has a length, so a missing part of it is always noticed.
#[cfg(feature = "tls")]
fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

#[cfg_attr(
    not(feature = "tls"),
    allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "what TLS has to do is nothing then"
    )
)]
impl Socket {
    pub(crate) fn from_transport(wire: Transport) -> Self {
        Self {
            wire,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(unix)]
            watched: Watched::Unwatched,
        }
    }

    /// Creates a connection with TLS, whose handshake is complete.
    #[cfg(feature = "tls")]
    pub(super) fn secured(wire: Transport, tls: ClientConnection) -> Self {
        Self { tls: Some(Box::new(tls)), ..Self::from_transport(wire) }
    }

    /// Returns the address of the server. `None` for a Unix socket.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.wire.peer()
    }

    /// Whether data is encrypted, so that it is accepted before it is written.
    pub(crate) fn is_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Makes the drop reset the connection, so that written data goes no further. A vote that arrives after its own
    /// delete would keep its key for the whole TTL.
    pub(crate) fn reset_on_drop(&self) {
        self.wire.reset_on_drop();
    }

    /// Reads the available bytes. Returns `WouldBlock` if there are none, and 0 at the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            loop {
                match tls.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if is_end(&error) => return Ok(0),
                    read => return read,
                }
                tls.read_tls(&mut &self.wire)?;
                tls.process_new_packets().map_err(io::Error::other)?;
            }
        }
        (&self.wire).read(into)
    }

    /// Reads the bytes that TLS has decrypted already. The socket does not become readable for them.
    pub(crate) fn read_kept(&mut self, into: &mut [u8]) -> usize {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.reader().read(into).unwrap_or_default();
        }
        let _ = into;
        0
    }

    /// Accepts as many of these bytes as possible. Returns `WouldBlock` if that is none.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            let taken = tls.writer().write(bytes)?;
            self.flush()?;
            return if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) };
        }
        (&self.wire).write(bytes)
    }

    /// Writes accepted bytes that could not be written before, as far as possible.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut &self.wire) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    written => written.map(drop)?,
                }
            }
        }
        Ok(())
    }

    /// The error of a connection that broke during the handshake of the protocol.
    pub(crate) fn broken(&self, error: &io::Error) -> Fault {
        #[cfg(feature = "tls")]
        if self.is_tls() {
            return super::tls::fault("the connection broke: ", error, None);
        }
        Fault::broken(error)
    }

    /// Whether accepted bytes are not written yet.
    pub(crate) fn is_unflushed(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// Reads and writes that wait, while the task that opens the connection is its only user.
impl Socket {
    /// Waits for bytes, and appends them. Returns 0 at the end. Dropping the future loses nothing.
    pub(crate) async fn receive(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|cx| self.poll_receive(into, cx)).await
    }

    /// Writes all of these bytes. TLS accepts bytes before it writes them.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        poll_fn(|cx| self.poll_send(&mut bytes, cx)).await
    }

    /// Waits for bytes like [`Self::receive`], and writes those of `unsent` meanwhile. Dropping the future loses
    /// nothing.
    pub(crate) async fn exchange(
        &mut self,
        unsent: &mut BytesMut,
        into: &mut BytesMut,
    ) -> io::Result<usize> {
        poll_fn(|cx| {
            if !unsent.is_empty() || self.is_unflushed() {
                let mut left = &unsent[..];
                let sent = self.poll_send(&mut left, cx);
                let left = left.len();
                unsent.advance(unsent.len() - left);
                if let Poll::Ready(Err(error)) = sent {
                    return Poll::Ready(Err(error));
                }
            }
            self.poll_receive(into, cx)
        })
        .await
    }

    fn poll_receive(
        &mut self,
        into: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let begin = into.len();
            into.resize(begin + RECEIVED, 0);
            let read = self.read(&mut into[begin..]);
            into.truncate(begin + *read.as_ref().unwrap_or(&0));
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.spent(Interest::READABLE);
                    ready!(self.poll_readable(cx))?;
                }
                read => return Poll::Ready(read),
            }
        }
    }

    /// Leaves in `bytes` what is not written yet.
    fn poll_send(&mut self, bytes: &mut &[u8], cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let written = match *bytes {
                [] => self.flush(),
                left => self.write(left).map(|count| *bytes = &left[count..]),
            };
            match written {
                Ok(()) if !bytes.is_empty() => {}
                Ok(()) if !self.is_unflushed() => return Poll::Ready(Ok(())),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ => {
                    self.spent(Interest::WRITABLE);
                    ready!(self.poll_writable(cx))?;
                }
            }
        }
    }
}

/// The part that is notified of bytes that arrive.
#[cfg(unix)]
enum Watched {
    Unwatched,
    /// The runtime of a waiting task.
    ByRuntime(AsyncFd<RawFd>),
    /// An event loop.
    ByPoller(Registration),
}

/// A descriptor that a poller watches until this is dropped. That must be before the descriptor is closed, because it
/// would be reported forever if a forked child has it too.
#[cfg(unix)]
struct Registration {
    /// Its loop may end before another driver watches the descriptor.
    poller: Weak<Poller>,
    descriptor: RawFd,
    number: u64,
}

#[cfg(unix)]
impl Registration {
    fn is_by(&self, poller: &Arc<Poller>, number: u64) -> bool {
        self.poller.as_ptr() == Arc::as_ptr(poller) && self.number == number
    }
}

#[cfg(unix)]
impl Drop for Registration {
    fn drop(&mut self) {
        self.poller.upgrade().iter().for_each(|poller| poller.remove(self.descriptor));
    }
}

/// Waiting in a runtime, for the polling task, or for a poller.
#[cfg(unix)]
impl Socket {
    /// Has this poller watch the socket under a number, instead of any other one. Returns the descriptor.
    pub(crate) fn watch(&mut self, poller: Option<(&Arc<Poller>, u64)>) -> io::Result<RawFd> {
        let descriptor = self.wire.as_raw_fd();
        let is_by = |(poller, number)| matches!(&self.watched, Watched::ByPoller(known) if known.is_by(poller, number));
        if !poller.is_some_and(is_by) {
            // First, because the same poller may watch it under another number.
            self.watched = Watched::Unwatched;
            if let Some((poller, number)) = poller {
                poller.add(descriptor, number)?;
                let poller = Arc::downgrade(poller);
                self.watched = Watched::ByPoller(Registration { poller, descriptor, number });
            }
        }
        Ok(descriptor)
    }

    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        #[cfg(feature = "simulation")]
        if let Some(stream) = self.wire.simulated() {
            return stream.poll_readable(cx);
        }
        self.watched_by_runtime()?.poll_read_ready(cx).map_ok(drop)
    }

    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        #[cfg(feature = "simulation")]
        if let Some(stream) = self.wire.simulated() {
            return stream.poll_writable(cx);
        }
        self.watched_by_runtime()?.poll_write_ready(cx).map_ok(drop)
    }

    /// Clears the readiness, after everything was read or all room was used. Only the waiting task may call it, or an
    /// event could be missed.
    pub(crate) fn spent(&self, interest: Interest) {
        if let Watched::ByRuntime(watched) = &self.watched {
            let nothing = |_: &RawFd| Err::<(), _>(io::ErrorKind::WouldBlock.into());
            // Returning `WouldBlock` is what clears the readiness.
            let _ = watched.try_io(interest, nothing);
        }
    }

    fn watched_by_runtime(&mut self) -> io::Result<&AsyncFd<RawFd>> {
        if !matches!(self.watched, Watched::ByRuntime(_)) {
            // SAFETY: the descriptor stays open while the registration exists, because the registration is dropped
            // first.
            let watched = unsafe { AsyncFd::register(self.wire.as_raw_fd()) }?;
            self.watched = Watched::ByRuntime(watched);
        }
        match &self.watched {
            Watched::ByRuntime(watched) => Ok(watched),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// On systems where a connection cannot leave its runtime, it always belongs to that runtime.
#[cfg(not(unix))]
impl Socket {
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_readable(cx)
    }

    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_writable(cx)
    }

    #[expect(clippy::unused_self, reason = "the runtime detects it")]
    pub(crate) fn spent(&self, _: Interest) {}

    /// Returns an error, because the socket stays in its runtime.
    #[expect(clippy::unused_self, reason = "other systems can")]
    pub(crate) fn watch(&mut self, _: Option<(&Arc<Poller>, u64)>) -> io::Result<i32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn bytes_that_do_not_fit_are_neither_lost_nor_repeated() {
        let (ours, mut server) = UnixStream::pair().unwrap();
        let mut socket = Socket::from_transport(Transport::unix(ours).unwrap());
        let all: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
        let (mut unsent, mut received) = (BytesMut::from(&all[..]), BytesMut::new());
        let mut sent = Vec::new();
        while sent.len() < all.len() {
            // Dropped each time.
            assert!(socket.exchange(&mut unsent, &mut received).now_or_never().is_none());
            let mut bytes = vec![0; 100_000];
            let count = server.read(&mut bytes).await.unwrap();
            sent.extend_from_slice(&bytes[..count]);
        }
        assert!(sent == all && unsent.is_empty());
    }
}
