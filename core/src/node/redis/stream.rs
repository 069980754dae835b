//! Opens the byte stream to a server: TCP, TLS or a Unix socket, as one type.
//!
//! It is an enum and not a boxed trait, because most connections use plain TCP and then cost only a comparison.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

#[cfg(feature = "tls")]
use tokio_rustls::TlsConnector;
#[cfg(feature = "tls")]
use tokio_rustls::client::TlsStream;

use super::endpoint::{Endpoint, PeerAddr};
use super::tcp_connect::tcp_connect;
#[cfg(feature = "tls")]
use super::tls::explained;

/// An open stream to a server.
pub(super) enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP. Boxed, because its state is large.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Stream {
    /// Opens the stream. Errors are explained.
    pub(super) async fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        match &endpoint.address {
            PeerAddr::Tcp(host, port) => {
                Ok(Self::Tcp(tcp_connect(host, *port, endpoint.family()).await?))
            }
            #[cfg(feature = "tls")]
            PeerAddr::Tls(host, port) => {
                let tls =
                    endpoint.tls.as_ref().ok_or_else(|| io::Error::other("no TLS options"))?;
                // Checked before the connection is opened, because a wrong name is an error in the options.
                let name = tls.name_for(host).map_err(io::Error::other)?;
                let stream = tcp_connect(host, *port, endpoint.family()).await?;
                let connector = TlsConnector::from(std::sync::Arc::clone(&tls.config));
                let secured = connector.connect(name, stream).await;
                let stream = secured.map_err(|error| io::Error::other(explained(&error)))?;
                Ok(Self::Tls(Box::new(stream)))
            }
            #[cfg(not(feature = "tls"))]
            PeerAddr::Tls(..) => Err(io::Error::other("no TLS")),
            #[cfg(unix)]
            PeerAddr::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            PeerAddr::Unix(_) => Err(io::Error::other("this system has no Unix sockets")),
        }
    }
}

impl Stream {
    /// Whether the stream uses TLS.
    pub(super) fn is_tls(&self) -> bool {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(_) => true,
            _ => false,
        }
    }

    /// Explains an error of the stream.
    pub(super) fn explained(&self, error: &io::Error) -> String {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(_) => explained(error),
            _ => error.to_string(),
        }
    }
}

/// Whether a TLS stream ended without `close_notify`, as when a proxy closes its socket.
///
/// It is an end like any other. A reply has a length, so a missing part of it is always noticed.
#[cfg(feature = "tls")]
pub(super) fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
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
            Self::Tls(stream) => match Pin::new(stream).poll_read(cx, buf) {
                Poll::Ready(Err(error)) if is_end(&error) => Poll::Ready(Ok(())),
                read => read,
            },
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
