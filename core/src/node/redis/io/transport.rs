//! Implements the transport: a TCP or Unix socket that never blocks.

#[cfg(unix)]
pub(crate) use unix::Transport;
#[cfg(not(unix))]
pub(crate) use windows::Transport;

#[cfg(unix)]
mod unix {
    use std::io::{self, Read, Write};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    use std::net::Shutdown;
    use std::net::TcpStream;
    use std::os::fd::{AsRawFd, RawFd};
    use std::os::unix::net::UnixStream;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    use std::time::Duration;

    /// A socket that belongs to no runtime.
    pub(crate) enum Transport {
        Tcp(TcpStream),
        Unix(UnixStream),
    }

    impl Transport {
        /// Takes a TCP stream from its runtime.
        pub(crate) fn tcp(stream: tokio::net::TcpStream) -> io::Result<Self> {
            stream.into_std().map(Self::Tcp)
        }

        /// Takes a Unix stream from its runtime.
        pub(crate) fn unix(stream: tokio::net::UnixStream) -> io::Result<Self> {
            stream.into_std().map(Self::Unix)
        }

        /// Lets a thread block in it for at most this time. All other reads and writes are explicitly non-blocking.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        pub(crate) fn may_wait(&self, time: Duration) -> io::Result<()> {
            match self {
                Self::Tcp(stream) => {
                    stream.set_read_timeout(Some(time))?;
                    stream.set_nonblocking(false)
                }
                Self::Unix(stream) => {
                    stream.set_read_timeout(Some(time))?;
                    stream.set_nonblocking(false)
                }
            }
        }

        /// Wakes the threads that block in it. Later reads end immediately.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        pub(crate) fn shutdown(&self) {
            let _ = match self {
                Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
                Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            };
        }

        /// Waits for bytes to read, up to the read timeout.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        pub(crate) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
            self.receive_by(into, 0)
        }

        #[cfg(any(target_os = "linux", target_os = "android"))]
        fn receive_by(&self, into: &mut [u8], flags: i32) -> io::Result<usize> {
            // SAFETY: the buffer has room for this number of bytes.
            let came = unsafe {
                libc::recv(self.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags)
            };
            usize::try_from(came).map_err(|_| io::Error::last_os_error())
        }

        /// Writes as many bytes as possible. Returns `WouldBlock` if that is none.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the buffer contains this number of bytes.
            let took =
                unsafe { libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
            usize::try_from(took).map_err(|_| io::Error::last_os_error())
        }

        /// Makes the drop reset the connection.
        pub(crate) fn reset_on_drop(&self) {
            // A Unix socket has no reset. Written data stays with the server, and the next connection has the server
            // close this one.
            let Self::Tcp(stream) = self else { return };
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            let size = libc::socklen_t::try_from(size_of_val(&linger)).unwrap_or_default();
            let (option, value) = (libc::SO_LINGER, (&raw const linger).cast());
            // SAFETY: the socket is open, and the value has the type of the option. If the system refuses, the socket
            // is closed normally, and the next connection has the server close it.
            unsafe {
                libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, option, value, size);
            }
        }
    }

    impl AsRawFd for Transport {
        fn as_raw_fd(&self) -> RawFd {
            match self {
                Self::Tcp(stream) => stream.as_raw_fd(),
                Self::Unix(stream) => stream.as_raw_fd(),
            }
        }
    }

    impl Read for &Transport {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            return self.receive_by(into, libc::MSG_DONTWAIT);
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            match self {
                Transport::Tcp(stream) => (&*stream).read(into),
                Transport::Unix(stream) => (&*stream).read(into),
            }
        }
    }

    impl Write for &Transport {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            return self.send(bytes);
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            match self {
                Transport::Tcp(stream) => (&*stream).write(bytes),
                Transport::Unix(stream) => (&*stream).write(bytes),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(not(unix))]
mod windows {
    use std::io::{self, Read, Write};
    use std::task::{Context, Poll};

    use tokio::net::TcpStream;

    /// A socket of the runtime that opened it.
    pub(crate) struct Transport(TcpStream);

    impl Transport {
        /// Keeps the stream in its runtime.
        #[expect(clippy::unnecessary_wraps, reason = "other systems have a step that can fail")]
        pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
            Ok(Self(stream))
        }

        /// Makes the drop reset the connection.
        pub(crate) fn reset_on_drop(&self) {
            // If the system refuses, the socket is closed normally, and the next connection has the server close it.
            let _ = self.0.set_zero_linger();
        }

        pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.poll_read_ready(cx)
        }

        pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.poll_write_ready(cx)
        }
    }

    impl Read for &Transport {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.try_read(into)
        }
    }

    impl Write for &Transport {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.try_write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
