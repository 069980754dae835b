//! Detects a server without TLS behind a `rediss://` URL.
//!
//! Such a server takes the beginning of a TLS handshake for a command. If no byte of it ends a line, which is random,
//! the server waits for the rest, and so does the client. On a second connection it replies to a command without TLS.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::clock::{Clock, SystemClock};

/// The time that a server with TLS usually needs for its first reply, besides the round trips. Only a slower server
/// gets the second connection.
const USUAL: Duration = Duration::from_millis(250);
/// The number of round trips until then, and the longest one that counts. A lookup may take much longer.
const PROBE_ROUND_TRIPS: (u32, Duration) = (3, Duration::from_millis(200));

/// Completes if the server replies to a command without TLS. `round_trip` is how long it took to connect to it.
pub(super) async fn until_plain(server: SocketAddr, round_trip: Duration) {
    let (times, longest) = PROBE_ROUND_TRIPS;
    sleep(USUAL + round_trip.min(longest) * times).await;
    if !replies(server).await.unwrap_or(false) {
        std::future::pending::<()>().await;
    }
}

/// Whether the server replies to `PING`, be it with an error. A server with TLS sends an alert, or nothing.
async fn replies(server: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(b"PING\r\n").await?;
    Ok(matches!(stream.read_u8().await?, b'+' | b'-'))
}

/// Measures how long it takes to connect.
pub(super) async fn timed<T>(connect: impl Future<Output = T>) -> (T, Duration) {
    let begun = SystemClock.now();
    let connected = connect.await;
    (connected, SystemClock.now().since(begun))
}
