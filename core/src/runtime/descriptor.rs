//! A descriptor that any thread can make readable, to wake a thread or an event loop that polls it.

#[cfg(not(unix))]
pub(super) use none::WakeDescriptor;
#[cfg(unix)]
pub(super) use unix::WakeDescriptor;

#[cfg(unix)]
mod unix {
    use std::io::{self, Read, Write};
    use std::os::fd::AsRawFd;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    type End = std::fs::File;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    type End = std::os::unix::net::UnixStream;

    /// An eventfd, or a pair of sockets on systems without one.
    pub(in super::super) struct WakeDescriptor {
        read: End,
        /// `None` if one descriptor serves both directions.
        write: Option<End>,
    }

    impl WakeDescriptor {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        pub(in super::super) fn open() -> io::Result<Self> {
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

        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        pub(in super::super) fn open() -> io::Result<Self> {
            let (read, write) = End::pair()?;
            read.set_nonblocking(true)?;
            write.set_nonblocking(true)?;
            Ok(Self { read, write: Some(write) })
        }

        /// The descriptor to poll.
        pub(in super::super) fn number(&self) -> i32 {
            self.read.as_raw_fd()
        }

        /// Makes it readable.
        pub(in super::super) fn set(&self) {
            // If the buffer is full, it is readable already.
            let mut write = self.write.as_ref().unwrap_or(&self.read);
            let _ = write.write(&1_u64.to_ne_bytes());
        }

        /// Makes it unreadable.
        pub(in super::super) fn clear(&self) {
            // The bytes have no meaning: the state is in `Wakeup`.
            let _ = (&self.read).read(&mut [0; 64]);
        }
    }
}

#[cfg(not(unix))]
mod none {
    use std::convert::Infallible;
    use std::io;

    /// Does not exist on this system. Its threads park.
    pub(in super::super) struct WakeDescriptor(Infallible);

    impl WakeDescriptor {
        pub(in super::super) fn open() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in super::super) fn number(&self) -> i32 {
            match self.0 {}
        }

        pub(in super::super) fn set(&self) {
            match self.0 {}
        }

        pub(in super::super) fn clear(&self) {
            match self.0 {}
        }
    }
}
