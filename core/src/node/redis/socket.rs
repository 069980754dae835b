//! Implements non-blocking reads and writes on an open connection, from any thread in turn.
//!
//! A runtime opens the connection ([`super::stream`]) and hands it over. A waiting thread uses the descriptor. A
//! waiting task has its runtime watch the socket ([`Socket::poll_readable`]), which is registered there only while a
//! task waits.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll};

#[cfg(unix)]
use std::os::fd::{AsRawFd, RawFd};
#[cfg(unix)]
use tokio::io::unix::AsyncFd;

use tokio::io::Interest;

use super::stream::Stream;
#[cfg(feature = "tls")]
use super::stream::is_end;
use super::transport::Transport;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::foreground::RECEIVE;

#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConnection;

/// An open connection that never blocks.
pub(super) struct Socket {
    /// The registration with the runtime of a waiting task. It is the first field, so that it is dropped before the
    /// socket is closed.
    #[cfg(unix)]
    listed: Option<AsyncFd<RawFd>>,
    /// Shared with a thread that blocks in it.
    wire: Arc<Transport>,
    #[cfg(feature = "tls")]
    tls: Option<Box<ClientConnection>>,
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
    /// Takes an open connection from its runtime.
    pub(super) fn of(stream: Stream) -> io::Result<Self> {
        Ok(match stream {
            Stream::Tcp(stream) => Self::over(Transport::tcp(stream)?),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                let (stream, tls) = stream.into_inner();
                Self { tls: Some(Box::new(tls)), ..Self::over(Transport::tcp(stream)?) }
            }
            #[cfg(unix)]
            Stream::Unix(stream) => Self::over(Transport::unix(stream)?),
        })
    }

    /// Returns the socket for a thread that blocks in it. Not with TLS, whose bytes are not the plain data.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn blocking(&self) -> Option<Arc<Transport>> {
        let may_block = !self.is_tls() && self.wire.may_wait(RECEIVE).is_ok();
        may_block.then(|| Arc::clone(&self.wire))
    }

    /// Wakes the threads that block in it. Later reads end immediately.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn shutdown(&self) {
        self.wire.shutdown();
    }

    fn over(wire: Transport) -> Self {
        Self {
            wire: Arc::new(wire),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(unix)]
            listed: None,
        }
    }

    /// Whether data is encrypted, so that it is accepted before it is written.
    pub(super) fn is_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Returns the descriptor that a thread waits on.
    #[cfg(unix)]
    pub(super) fn descriptor(&self) -> RawFd {
        self.wire.as_raw_fd()
    }

    /// Makes the drop reset the connection, so that written data goes no further. A vote that arrives after its own
    /// delete would keep its key for the whole TTL.
    pub(super) fn reset_on_drop(&self) {
        self.wire.reset_on_drop();
    }

    /// Reads the available bytes. Returns `WouldBlock` if there are none, and 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            loop {
                match tls.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if is_end(&error) => return Ok(0),
                    read => return read,
                }
                tls.read_tls(&mut &*self.wire)?;
                tls.process_new_packets().map_err(io::Error::other)?;
            }
        }
        (&*self.wire).read(into)
    }

    /// Reads the bytes that TLS has decrypted already. The socket does not become readable for them.
    pub(super) fn read_kept(&mut self, into: &mut [u8]) -> usize {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.reader().read(into).unwrap_or_default();
        }
        let _ = into;
        0
    }

    /// Accepts as many of these bytes as possible. Returns `WouldBlock` if that is none.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            let taken = tls.writer().write(bytes)?;
            self.flush()?;
            return if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) };
        }
        (&*self.wire).write(bytes)
    }

    /// Writes accepted bytes that could not be written before, as far as possible.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut &*self.wire) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    written => written.map(drop)?,
                }
            }
        }
        Ok(())
    }

    /// Whether accepted bytes are not written yet.
    pub(super) fn is_unflushed(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// Waiting in a runtime, for the polling task. The socket is registered with one runtime at a time.
#[cfg(unix)]
impl Socket {
    /// Ready when there may be something to read.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.list()?.poll_read_ready(cx).map_ok(drop)
    }

    /// Ready when there may be room to write.
    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.list()?.poll_write_ready(cx).map_ok(drop)
    }

    /// Clears the readiness, after everything was read or all room was used. Only the waiting task may call it, or an
    /// event could be missed.
    pub(super) fn spent(&self, interest: Interest) {
        if let Some(listed) = &self.listed {
            let nothing = |_: &RawFd| Err::<(), _>(io::ErrorKind::WouldBlock.into());
            // Returning `WouldBlock` is what clears the readiness.
            let _ = listed.try_io(interest, nothing);
        }
    }

    /// Removes the registration, so that the runtime is not woken any more.
    pub(super) fn unlist(&mut self) {
        self.listed = None;
    }

    fn list(&mut self) -> io::Result<&AsyncFd<RawFd>> {
        if self.listed.is_none() {
            // SAFETY: the descriptor stays open while the registration exists, because the registration is dropped
            // first.
            self.listed = Some(unsafe { AsyncFd::register(self.descriptor()) }?);
        }
        self.listed.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// On systems where a connection cannot leave its runtime, it always belongs to that runtime.
#[cfg(not(unix))]
impl Socket {
    /// Ready when there may be something to read.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_readable(cx)
    }

    /// Ready when there may be room to write.
    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_writable(cx)
    }

    #[expect(clippy::unused_self, reason = "the runtime detects it")]
    pub(super) fn spent(&self, _: Interest) {}

    #[expect(clippy::unused_self, reason = "the runtime's for good")]
    pub(super) fn unlist(&mut self) {}
}
