//! Sends commands in batches and reads their replies, on a connection without a command queue.
//!
//! The handshake, the connection for notifications and the connections to sentinels use it. The replies have the order
//! of the batch.

use std::time::Duration;

use redis::{Arg, Cmd, Value};

use crate::node::Fault;
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::redis::io::socket::Socket;
use crate::node::redis::io::{open, step};
use crate::node::redis::protocol::Parser;
use crate::runtime::environment;

/// The maximum length of a reply. A longer one is an error, so that it takes no memory. `INFO` takes a few KiB.
const LARGEST_GREETING_REPLY: usize = 64 << 10;

/// The commands whose first argument is a part of their name.
const CONTAINERS: [&[u8]; 4] = [b"CLIENT", b"CLUSTER", b"SCRIPT", b"SENTINEL"];

/// The name of a command, without arguments, which may be secret.
fn name(command: &Cmd) -> String {
    let mut words = command.args_iter().filter_map(|argument| match argument {
        Arg::Simple(word) => Some(word),
        _ => None,
    });
    let first = words.next().unwrap_or_default();
    let second = words.next().filter(|_| CONTAINERS.contains(&first));
    let words = [Some(first), second].into_iter().flatten().map(String::from_utf8_lossy);
    words.collect::<Vec<_>>().join(" ")
}

/// An open connection, and the bytes that were read after the last reply.
pub(crate) struct BatchConnection {
    /// The socket. It is logged in once the handshake has completed.
    pub(crate) socket: Socket,
    /// The parser, which may hold a push that directly followed the handshake.
    pub(crate) parser: Parser,
    /// The shortest time between a batch and its last reply. `None` before the first one.
    pub(crate) round_trip: Option<Duration>,
}

impl BatchConnection {
    /// Opens a connection without a login.
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self, Fault> {
        let socket = open(endpoint).await?;
        Ok(Self { socket, parser: Parser::default(), round_trip: None })
    }

    /// Sends all commands at once. Returns one reply for each, without pushes.
    ///
    /// If the future is dropped early, replies are outstanding and the connection cannot be used.
    pub(crate) async fn request(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, Fault> {
        let sent = environment::now();
        self.send_all(commands).await?;
        let mut replies = Vec::with_capacity(commands.len());
        while let Some(command) = commands.get(replies.len()) {
            step::enter(format!("the reply to {}", name(command)));
            match self.next().await? {
                // Changes before the connection was ready are reported as "all" afterwards.
                Value::Push { .. } => {}
                value => replies.push(value),
            }
        }
        let took = environment::now().since(sent);
        self.round_trip = Some(self.round_trip.map_or(took, |shortest| shortest.min(took)));
        Ok(replies)
    }

    /// Sends all commands at once, and reads nothing.
    pub(crate) async fn send_all(&mut self, commands: &[Cmd]) -> Result<(), Fault> {
        let bytes = commands.iter().map(Cmd::get_packed_command).collect::<Vec<_>>().concat();
        let Err(mut error) = self.socket.send(&bytes).await else { return Ok(()) };
        // With TLS the server may have sent the reason.
        if self.socket.is_tls()
            && let Err(reason) = self.socket.receive(&mut self.parser.unread).await
        {
            error = reason;
        }
        Err(self.broken(&error))
    }

    /// The error of a connection that ended during the handshake.
    fn broken(&self, error: &std::io::Error) -> Fault {
        // An inner error means that the server has sent the reason.
        self.ended(self.socket.broken(error), error.get_ref().is_none())
    }

    /// The error of a connection that ended, `without_reason` if the server did not send one.
    fn ended(&self, fault: Fault, without_reason: bool) -> Fault {
        if without_reason && self.parser.partial() == 0 { fault.hung_up() } else { fault }
    }

    /// Reads the next reply or push. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Value, Fault> {
        loop {
            let odd = "the reply to the greeting is not in the Redis protocol";
            if let Some(value) = self.parser.next().map_err(|_| Fault::new(odd))? {
                return Ok(value);
            }
            if self.parser.partial() > LARGEST_GREETING_REPLY {
                return Err(Fault::new("the reply to the greeting is too large"));
            }
            let read = match self.socket.receive(&mut self.parser.unread).await {
                Ok(read) => read,
                Err(error) => return Err(self.broken(&error)),
            };
            if read == 0 {
                let fault = Fault::new("the server closed the connection during the greeting");
                return Err(self.ended(fault, true));
            }
            // A TLS server sends an alert of any version to a plain client.
            if self.parser.partial() == 0 && matches!(self.parser.unread[..], [0x15, 3, ..]) {
                let text = "the server uses TLS on this port. Write rediss:// instead of redis:// (for sentinels \
                            alone, add sentinel_tls=true)";
                return Err(Fault::new(text).refused());
            }
            self.parser.count_read(read);
        }
    }
}
