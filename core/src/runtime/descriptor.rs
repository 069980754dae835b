//! A descriptor that any thread can make readable, to wake a thread or an event loop that polls it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

/// An eventfd, or a pipe on systems without one.
pub(super) struct WakeDescriptor {
    read: File,
    /// `None` if one descriptor serves both directions.
    write: Option<File>,
}

impl WakeDescriptor {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn open() -> io::Result<Self> {
        // SAFETY: the call takes two numbers and returns a descriptor or -1.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open and has no other owner.
        Ok(Self { read: unsafe { File::from_raw_fd(descriptor) }, write: None })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn open() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: there is room for both ends.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for end in ends {
            // SAFETY: both are open, and each call takes only numbers.
            unsafe {
                libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
                libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK);
            }
        }
        // SAFETY: they are open and have no other owner.
        let [read, write] = ends.map(|end| unsafe { File::from_raw_fd(end) });
        Ok(Self { read, write: Some(write) })
    }

    /// The descriptor to poll.
    pub(super) fn number(&self) -> i32 {
        self.read.as_raw_fd()
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
