//! Lets one thread block in the socket of a session, without the session.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};

use crate::node::redis::calls;
use crate::node::redis::socket::Socket;
use crate::node::redis::transport::Transport;

/// What a thread received while another one used the session.
pub(super) type Received = mpsc::Receiver<io::Result<Vec<u8>>>;

/// What a thread needs to receive from a socket.
pub(crate) struct Receiver {
    /// Stays open while the thread is in it.
    wire: Arc<Transport>,
    left: mpsc::Sender<io::Result<Vec<u8>>>,
}

impl Receiver {
    /// Creates the receiver of a socket, unless threads must not block in it.
    pub(super) fn new(socket: &Socket) -> (Option<Arc<Self>>, Received) {
        let (left, received) = mpsc::channel();
        (socket.blocking().map(|wire| Arc::new(Self { wire, left })), received)
    }

    /// Blocks until bytes arrive, up to the socket's read timeout.
    pub(crate) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        calls::receive(self.wire.as_raw_fd(), into)
    }

    /// Leaves what was received to the thread that uses the session.
    pub(crate) fn leave(&self, received: io::Result<&[u8]>) {
        // Fails only if the session has ended.
        let _ = self.left.send(received.map(<[u8]>::to_vec));
    }
}
