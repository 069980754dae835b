//! Opens sockets and moves bytes: TCP, Unix sockets and TLS. No module here knows what the bytes mean.
//!
//! A connection is opened in a runtime ([`open`]). It then is a [`socket`] that any thread may use without blocking,
//! one at a time (`connection`).
//!
//! A host name may have several addresses. They are tried one after the other, each for its share of the time that the
//! attempt has left. Otherwise an unreachable first address would use up the time limit of every attempt.

pub(super) mod endpoint;
pub(super) mod lookup;
#[cfg(feature = "tls")]
mod probe;
pub(super) mod socket;
pub(super) mod step;
pub(super) mod tls;
pub(super) mod transport;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

#[cfg(all(feature = "simulation", unix))]
use futures_util::future::BoxFuture;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[cfg(feature = "tls")]
use tokio_rustls::TlsConnector;

use crate::node::Fault;
use crate::node::redis::io::endpoint::{Endpoint, PeerAddr};
#[cfg(all(feature = "simulation", unix))]
use crate::runtime::environment::simulated::{Stream, current};
use lookup::look_up;
use socket::Socket;
use transport::Transport;

/// The beginning of each error.
const CANNOT_CONNECT: &str = "cannot connect: ";

/// Opens the connection. Errors are explained.
pub(crate) async fn open(endpoint: &Endpoint) -> Result<Socket, Fault> {
    #[cfg(all(feature = "simulation", unix))]
    if let Some(stream) = simulated(endpoint) {
        let transport = stream.await.map(Transport::Simulated);
        return transport.map(Socket::from_transport).map_err(|error| fault(&error));
    }
    let transport = match &endpoint.address {
        PeerAddr::Tcp(host, port) => {
            tcp_connect(endpoint, host, *port).await.and_then(Transport::tcp)
        }
        #[cfg(feature = "tls")]
        PeerAddr::Tls(host, port) => return secure(endpoint, host, *port).await,
        #[cfg(not(feature = "tls"))]
        PeerAddr::Tls(..) => Err(io::Error::other("no TLS")),
        #[cfg(unix)]
        PeerAddr::Unix(path) => {
            step::enter("the connection to the Unix socket");
            tokio::net::UnixStream::connect(path).await.and_then(Transport::unix)
        }
        #[cfg(not(unix))]
        PeerAddr::Unix(_) => Err(io::Error::other("this system has no Unix sockets")),
    };
    transport.map(Socket::from_transport).map_err(|error| fault(&error))
}

/// Opens a connection without TLS in the replaced environment of this thread, if there is one.
#[cfg(all(feature = "simulation", unix))]
fn simulated(endpoint: &Endpoint) -> Option<BoxFuture<'static, io::Result<Box<dyn Stream>>>> {
    let PeerAddr::Tcp(host, port) = &endpoint.address else { return None };
    current().map(|environment| environment.open(host, *port))
}

fn fault(error: &io::Error) -> Fault {
    Fault::new(CANNOT_CONNECT).saying(&error.to_string(), "").by(error).unreached()
}

/// Opens a connection with TLS.
#[cfg(feature = "tls")]
async fn secure(endpoint: &Endpoint, host: &str, port: u16) -> Result<Socket, Fault> {
    let options = endpoint.tls.as_ref().ok_or_else(|| Fault::new("no TLS options"))?;
    // Checked before the connection is opened, because a wrong name is an error in the options.
    let name = options.name_for(host).map_err(|error| fault(&io::Error::other(error)))?;
    let (stream, round_trip) = probe::timed(tcp_connect(endpoint, host, port)).await;
    let stream = stream.map_err(|error| fault(&error))?;
    let server = stream.peer_addr().map_err(|error| fault(&error))?;
    step::enter(format!("the TLS handshake with {host}:{port} (check whether this is a TLS port)"));
    let connector = TlsConnector::from(std::sync::Arc::clone(&options.config));
    let secured = tokio::select! {
        biased;
        secured = connector.connect(name.clone(), stream) => secured,
        () = probe::until_plain(server, round_trip) => {
            return Err(Fault::new(format!("{CANNOT_CONNECT}TLS: {}", tls::PLAIN)).refused());
        }
    };
    let secured = secured.map_err(|error| tls::fault(CANNOT_CONNECT, &error, Some(&name)))?;
    let (stream, connection) = secured.into_inner();
    let transport = Transport::tcp(stream).map_err(|error| fault(&error))?;
    Ok(Socket::secured(transport, connection))
}

/// The idle time before the system sends the first keepalive probe, and the interval of further probes.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Connects to the first address of the host that accepts, or to the known one.
async fn tcp_connect(endpoint: &Endpoint, host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = match endpoint.known {
        Some(known) => [known].into(),
        None => by_turns(look_up(host, port).await?, endpoint.parameters.family),
    };
    step::enter(format!("the TCP connection to {host}:{port}"));
    let stream = first_of(addresses, step::time_left).await?;
    // Disables Nagle's algorithm, which would delay every small command.
    stream.set_nodelay(true)?;
    // Keeps NAT entries alive, and closes a connection whose probes get no reply. Errors are ignored: a system without
    // this option still detects a dead connection by the probe after a silence.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE.0).with_interval(KEEPALIVE.1);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    Ok(stream)
}

/// Alternates the families in the order of the resolver, so that an unreachable family delays the others by only one
/// address. `family` is 4 or 6 if only one is to be tried.
fn by_turns(
    addresses: impl IntoIterator<Item = SocketAddr>,
    family: Option<u8>,
) -> VecDeque<SocketAddr> {
    let wanted = addresses.into_iter().filter(|address| match family {
        Some(4) => address.is_ipv4(),
        Some(6) => address.is_ipv6(),
        _ => true,
    });
    let mut seen = Vec::new();
    for address in wanted {
        // Resolvers repeat an address for each kind of socket.
        if !seen.contains(&address) {
            seen.push(address);
        }
    }
    // The resolver's first choice comes first (RFC 6724).
    let preferred = seen.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (VecDeque<_>, VecDeque<_>) =
        seen.into_iter().partition(|address| address.is_ipv6() == preferred);
    let mut turns = VecDeque::new();
    while !first.is_empty() || !second.is_empty() {
        turns.extend(first.pop_front());
        turns.extend(second.pop_front());
    }
    turns
}

/// Tries one address after the other. An address that drops packets uses up an equal share of the time that is left.
/// The last one has no limit here, because that of the whole attempt applies to it.
///
/// Shares of the time that is left, not of the whole limit: the lookup may have taken a part of it, and a handshake may
/// open several connections.
async fn first_of(
    mut addresses: VecDeque<SocketAddr>,
    time_left: impl Fn() -> Duration,
) -> io::Result<TcpStream> {
    let mut last = io::Error::new(
        io::ErrorKind::NotFound,
        "the name has no address, or none of the URL's family",
    );
    while let Some(address) = addresses.pop_front() {
        let connect = TcpStream::connect(address);
        let others = u32::try_from(addresses.len()).unwrap_or(u32::MAX - 1);
        // The error of the whole attempt names its step.
        let connected = if others == 0 {
            connect.await
        } else {
            let limited = timeout(time_left() / (others + 1), connect).await;
            limited.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn alternates_address_families_without_duplicates() {
        let given = ["[::1]:1", "[::2]:1", "[::1]:1", "1.1.1.1:1", "[::3]:1", "2.2.2.2:1"];
        let turns = by_turns(given.map(address), None);
        let expected = ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"];
        assert_eq!(turns, expected.map(address));
    }

    /// Creates a listener that does not accept and whose queue is full, so that the system drops new connections.
    #[cfg(unix)]
    fn full_listener() -> (TcpListener, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // To listen again only shortens the queue.
        SockRef::from(&listener).listen(0).unwrap();
        let first = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener, first)
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn addresses_that_drop_packets_leave_time_for_the_others() {
        let full_listeners = [(); 2].map(|()| full_listener());
        let good = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut addresses: VecDeque<_> =
            full_listeners.iter().map(|(listener, _)| listener.local_addr().unwrap()).collect();
        addresses.extend([address("127.0.0.1:1"), good.local_addr().unwrap()]);
        let readings = std::cell::Cell::new(0);
        let time_left = || {
            readings.set(readings.get() + 1);
            Duration::from_millis(400)
        };
        let stream = first_of(addresses, time_left).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good.local_addr().unwrap());
        // A lookup, or an earlier connection of the same attempt, may have taken most of the limit.
        assert_eq!(
            readings.get(),
            3,
            "each address but the last has a share of what is left by then"
        );
    }

    /// The process has a stack size that no thread can have. Its only test runs on the main thread.
    #[cfg(unix)]
    #[tokio::test]
    async fn reports_that_no_thread_can_look_up_a_name() {
        const SIZE: (&str, &str) = ("RUST_MIN_STACK", "140737488355328");
        if std::env::var(SIZE.0).is_ok_and(|size| size == SIZE.1) {
            let error = look_up("localhost", 1).await.unwrap_err();
            assert!(error.to_string().contains("cannot start a thread"), "{error}");
            return;
        }
        let test = "node::redis::io::tests::reports_that_no_thread_can_look_up_a_name";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", test, "--test-threads=1"]).env(SIZE.0, SIZE.1);
        let ended = child.output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }

    #[tokio::test]
    async fn reports_the_last_refusal() {
        let error = first_of([address("127.0.0.1:1"), address("[::1]:1")].into(), || Duration::MAX)
            .await
            .unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::NotFound, "{error}");
        assert!(first_of(VecDeque::new(), || Duration::MAX).await.is_err());
    }
}
