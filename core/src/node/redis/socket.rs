//! An open connection as bytes that are there, and bytes that it takes: nobody ever waits in it, so that any thread may
//! read and write it in turn.
//!
//! A runtime opens it ([`super::stream`]) and lets go of it here. Whoever waits for it waits as threads do, by its
//! descriptor, or asks a runtime to tell ([`Socket::poll_io`]): it is listed with that runtime while somebody waits there,
//! and with nobody else.

use std::io::{self, Read, Write};
use std::task::{Context, Poll};

#[cfg(unix)]
use std::os::fd::{AsRawFd, RawFd};
#[cfg(unix)]
use tokio::io::unix::AsyncFd;

use tokio::io::Interest;

use super::stream::Stream;
use super::wire::Wire;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::foreground::RECEIVE;

#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConnection;

/// An open connection that never waits.
pub(super) struct Socket {
    /// With the runtime of whoever waits for it, if that is one. First, and so dropped before it is closed.
    #[cfg(unix)]
    listed: Option<AsyncFd<RawFd>>,
    wire: Wire,
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
    /// Takes an open connection away from its runtime.
    pub(super) fn of(stream: Stream) -> io::Result<Self> {
        Ok(match stream {
            Stream::Tcp(stream) => Self::over(Wire::tcp(stream)?),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                let (stream, tls) = stream.into_inner();
                Self { tls: Some(Box::new(tls)), ..Self::over(Wire::tcp(stream)?) }
            }
            #[cfg(unix)]
            Stream::Unix(stream) => Self::over(Wire::unix(stream)?),
        })
    }

    /// Has a thread wait in it by [`super::lane`]; over TLS no bytes are what was said.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn may_wait(&self) -> bool {
        !self.is_tls() && self.wire.may_wait(RECEIVE).is_ok()
    }

    /// Whoever waits in it, or is about to, finds its end at once.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn shutdown(&self) {
        self.wire.shutdown();
    }

    fn over(wire: Wire) -> Self {
        Self {
            wire,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(unix)]
            listed: None,
        }
    }

    /// Whether what is written is encrypted first, and so taken before it is written.
    pub(super) fn is_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// By what a thread waits for it.
    #[cfg(unix)]
    pub(super) fn descriptor(&self) -> RawFd {
        self.wire.as_raw_fd()
    }

    /// What was written and is on its way goes no further, once this is dropped. A vote that arrives after its own delete
    /// would stay for its whole ttl.
    pub(super) fn reset_on_drop(&self) {
        self.wire.reset_on_drop();
    }

    /// Reads what is there; an error of the kind `WouldBlock` where nothing is. No bytes: the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            loop {
                match tls.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
                tls.read_tls(&mut self.wire)?;
                tls.process_new_packets().map_err(io::Error::other)?;
            }
        }
        self.wire.read(into)
    }

    /// Reads what came already, and is kept by TLS; nothing, where nothing is. Nobody would be told of it.
    pub(super) fn read_kept(&mut self, into: &mut [u8]) -> usize {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.reader().read(into).unwrap_or_default();
        }
        let _ = into;
        0
    }

    /// Takes what it can of these bytes; an error of the kind `WouldBlock` where that is nothing.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            let taken = tls.writer().write(bytes)?;
            self.flush()?;
            return if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) };
        }
        self.wire.write(bytes)
    }

    /// Writes what it took and could not write yet, as far as there is room.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut self.wire) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    written => written.map(drop)?,
                }
            }
        }
        Ok(())
    }

    /// Whether it took bytes that it has not written yet.
    pub(super) fn is_unflushed(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// Waiting in a runtime, for the task that polls; of one runtime at a time.
#[cfg(unix)]
impl Socket {
    /// Ready once there may be something to read.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.list()?.poll_read_ready(cx).map_ok(drop)
    }

    /// Ready once there may be room to write.
    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.list()?.poll_write_ready(cx).map_ok(drop)
    }

    /// Everything was read, or all room is taken: what is waited for is what comes next. Said by the task that waits, or what
    /// came meanwhile could be missed.
    pub(super) fn spent(&self, interest: Interest) {
        if let Some(listed) = &self.listed {
            let nothing = |_: &RawFd| Err::<(), _>(io::ErrorKind::WouldBlock.into());
            // That nothing was there is all that it is told.
            let _ = listed.try_io(interest, nothing);
        }
    }

    /// Nobody waits for it in a runtime any more, which is not woken by it from here on.
    pub(super) fn unlist(&mut self) {
        self.listed = None;
    }

    fn list(&mut self) -> io::Result<&AsyncFd<RawFd>> {
        if self.listed.is_none() {
            // SAFETY: it is open for as long as this is, which is dropped first.
            self.listed = Some(unsafe { AsyncFd::register(self.descriptor()) }?);
        }
        self.listed.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Where a runtime does not let go of a connection, it is always that runtime's.
#[cfg(not(unix))]
impl Socket {
    /// Ready once there may be something to read.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_readable(cx)
    }

    /// Ready once there may be room to write.
    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_writable(cx)
    }

    #[expect(clippy::unused_self, reason = "the runtime finds out by itself")]
    pub(super) fn spent(&self, _: Interest) {}

    #[expect(clippy::unused_self, reason = "the runtime's for good")]
    pub(super) fn unlist(&mut self) {}
}
