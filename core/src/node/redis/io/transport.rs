//! Implements the transport: a TCP or Unix socket that never blocks.

#[cfg(unix)]
pub(crate) use unix::Transport;
#[cfg(not(unix))]
pub(crate) use windows::Transport;

#[cfg(unix)]
mod unix {
    use std::io::{self, Read, Write};
    use std::net::SocketAddr;
    use std::os::fd::{AsRawFd, RawFd};
    use std::time::Duration;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    use libc::MSG_NOSIGNAL;
    use socket2::Socket;

    use crate::runtime::Owned;
    #[cfg(feature = "simulation")]
    use crate::runtime::environment::simulated::Stream;

    /// Other systems have no such flag, and set an option when a socket is created.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const MSG_NOSIGNAL: i32 = 0;

    /// A socket that belongs to no runtime.
    pub(crate) enum Transport {
        Os(Owned<Socket>),
        #[cfg(feature = "simulation")]
        Simulated(Box<dyn Stream>),
    }

    impl Transport {
        fn os(&self) -> &Socket {
            match self {
                Self::Os(socket) => socket,
                #[cfg(feature = "simulation")]
                Self::Simulated(_) => unreachable!("a simulated stream has no socket"),
            }
        }

        /// The stream of a replaced environment.
        #[cfg(feature = "simulation")]
        pub(crate) fn simulated(&self) -> Option<&dyn Stream> {
            if let Self::Simulated(stream) = self { Some(&**stream) } else { None }
        }

        /// Takes a TCP stream from its runtime.
        pub(crate) fn tcp(stream: tokio::net::TcpStream) -> io::Result<Self> {
            Ok(Self::Os(Owned::new(stream.into_std()?.into())))
        }

        /// Takes a Unix stream from its runtime.
        pub(crate) fn unix(stream: tokio::net::UnixStream) -> io::Result<Self> {
            Ok(Self::Os(Owned::new(stream.into_std()?.into())))
        }

        /// Returns the address of the server. `None` for a Unix socket.
        pub(crate) fn peer(&self) -> Option<SocketAddr> {
            #[cfg(feature = "simulation")]
            self.simulated().map_or(Some(()), |_| None)?;
            self.os().peer_addr().ok()?.as_socket()
        }

        /// Makes the drop reset the connection.
        pub(crate) fn reset_on_drop(&self) {
            // A Unix socket has no reset. Written data stays with the server. As if the system refuses, the socket is
            // closed normally, and the next connection has the server close this one.
            #[cfg(feature = "simulation")]
            if let Some(stream) = self.simulated() {
                return stream.reset_on_drop();
            }
            let _ = self.os().set_linger(Some(Duration::ZERO));
        }
    }

    impl AsRawFd for Transport {
        fn as_raw_fd(&self) -> RawFd {
            self.os().as_raw_fd()
        }
    }

    impl Read for &Transport {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            #[cfg(feature = "simulation")]
            if let Some(stream) = self.simulated() {
                return stream.read(into);
            }
            let mut socket = self.os();
            socket.read(into)
        }
    }

    impl Write for &Transport {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            #[cfg(feature = "simulation")]
            if let Some(stream) = self.simulated() {
                return stream.write(bytes);
            }
            self.os().send_with_flags(bytes, MSG_NOSIGNAL)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(not(unix))]
mod windows {
    use std::io::{self, Read, Write};
    use std::net::SocketAddr;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use tokio::net::TcpStream;

    /// A socket of the runtime that opened it.
    pub(crate) struct Transport(TcpStream);

    impl Transport {
        /// Keeps the stream in its runtime.
        #[expect(clippy::unnecessary_wraps, reason = "other systems have a step that can fail")]
        pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
            Ok(Self(stream))
        }

        /// Returns the address of the server.
        pub(crate) fn peer(&self) -> Option<SocketAddr> {
            self.0.peer_addr().ok()
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
