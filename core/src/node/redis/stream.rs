//! The bytes' way: TCP or a Unix socket, or TLS, as one type.
//!
//! An enum rather than a boxed trait: most bytes go over plain TCP, at no cost but a comparison.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

#[cfg(feature = "tls")]
use tokio_rustls::TlsConnector;
#[cfg(feature = "tls")]
use tokio_rustls::client::TlsStream;

use super::dial::dial;
use super::endpoint::{Endpoint, Place};
#[cfg(feature = "tls")]
use super::tls::explained;

/// An open way to a server.
pub(super) enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP; its state is large, and the others need not carry it.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
    /// A socket of this machine.
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Stream {
    /// Opens it; what goes wrong is explained in words.
    pub(super) async fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        match &endpoint.place {
            Place::Tcp(host, port) => Ok(Self::Tcp(dial(host, *port, endpoint.family()).await?)),
            #[cfg(feature = "tls")]
            Place::Tls(host, port) => {
                let tls =
                    endpoint.tls.as_ref().ok_or_else(|| io::Error::other("no TLS options"))?;
                // Before anything is opened: a wrong name is the options' fault.
                let name = tls.name_for(host).map_err(io::Error::other)?;
                let stream = dial(host, *port, endpoint.family()).await?;
                let connector = TlsConnector::from(std::sync::Arc::clone(&tls.config));
                let secured = connector.connect(name, stream).await;
                let stream = secured.map_err(|error| io::Error::other(explained(&error)))?;
                Ok(Self::Tls(Box::new(stream)))
            }
            #[cfg(not(feature = "tls"))]
            Place::Tls(..) => Err(io::Error::other("no TLS")),
            #[cfg(unix)]
            Place::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            Place::Unix(_) => Err(io::Error::other("this system has no Unix sockets")),
        }
    }

    /// Whether what is written is encrypted first.
    pub(super) fn is_tls(&self) -> bool {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(_) => true,
            _ => false,
        }
    }

    /// Has the connection reset when it is dropped: what was written and is still on its way goes no further. A
    /// vote that arrives after its own delete would stay for its whole ttl.
    pub(super) fn reset_on_drop(&self) {
        let tcp = match self {
            Self::Tcp(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0,
            #[cfg(unix)]
            // It has no reset: what was written lies with the server, which the successor has end this connection.
            Self::Unix(_) => return,
        };
        // A socket that refuses is closed as any other; the successor has the server end it.
        let _ = tcp.set_zero_linger();
    }

    /// Writes what the socket takes at once, without waiting; TLS has to wait its turn.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            // It encrypts first, and has no way to say how much of that was sent.
            #[cfg(feature = "tls")]
            Self::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }
}

/// One of two users of an open way within one task: as `tokio::io::split` makes them, without memory of its own.
pub(super) struct Half<'a, 's>(pub(super) &'a Mutex<&'s mut Stream>);

impl Half<'_, '_> {
    fn with<T>(&self, use_it: impl FnOnce(Pin<&mut Stream>) -> T) -> T {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_it(Pin::new(&mut **stream))
    }
}

impl AsyncRead for Half<'_, '_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Half<'_, '_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
