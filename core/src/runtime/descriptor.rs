//! A descriptor that any thread can make readable, to wake a thread or an event loop that polls it.

use std::io::{self, Read, Write};

/// One end of it.
#[cfg(any(target_os = "linux", target_os = "android"))]
type End = std::fs::File;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
type End = std::os::unix::net::UnixStream;
/// Never opened.
#[cfg(not(unix))]
type End = std::fs::File;

/// An eventfd, or a pair of sockets on systems without one. Systems other than Unix have none, and their threads park.
pub(super) struct WakeDescriptor {
    read: End,
    /// `None` if one descriptor serves both directions.
    write: Option<End>,
}

impl WakeDescriptor {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn open() -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: the call takes two numbers. The descriptor, if there is one, has no other owner.
        let read = unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
                -1 => return Err(io::Error::last_os_error()),
                descriptor => End::from_raw_fd(descriptor),
            }
        };
        Ok(Self { read, write: None })
    }

    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    pub(super) fn open() -> io::Result<Self> {
        let (read, write) = End::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self { read, write: Some(write) })
    }

    #[cfg(not(unix))]
    pub(super) fn open() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The descriptor to poll.
    #[cfg(unix)]
    pub(super) fn number(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.read)
    }

    /// Never called, because none is ever open.
    #[cfg(not(unix))]
    #[expect(clippy::unused_self, reason = "other systems use it")]
    pub(super) fn number(&self) -> i32 {
        -1
    }

    /// Makes it readable.
    pub(super) fn set(&self) {
        // If the buffer is full, it is readable already.
        let mut write = self.write.as_ref().unwrap_or(&self.read);
        let _ = write.write(&1_u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub(super) fn clear(&self) {
        // The bytes have no meaning: the state is in `Wakeup`.
        let _ = (&self.read).read(&mut [0; 64]);
    }
}
