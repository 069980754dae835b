//! Commands and their answers while a connection is being opened: few, one batch after the other.
//!
//! Nobody else asks anything yet, so answers need no queue: they come in the order of the batch.

use redis::{Cmd, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::reader::Reader;
use super::stream::Stream;
use crate::node::Fault;

/// An answer of more bytes than this is no greeting; no memory is spent on the rest of it.
/// `INFO` is a few KiB.
const LARGEST: usize = 64 << 10;

/// An open connection, and what was read of it beyond the last answer.
pub(super) struct Talk {
    /// Open, and logged in once the greeting is over.
    pub(super) stream: Stream,
    /// The session goes on with it: a push may have come right behind the greeting.
    pub(super) reader: Reader,
    /// The server ended the connection instead of replying: perhaps it does not support what was asked.
    pub(super) hung_up: bool,
}

impl Talk {
    /// Nothing was said yet.
    pub(super) fn over(stream: Stream) -> Self {
        Self { stream, reader: Reader::default(), hung_up: false }
    }

    /// Sends all commands at once; one answer each, pushes left out.
    ///
    /// Dropped before its end it leaves answers to come: the connection is of no use then.
    pub(super) async fn ask(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, Fault> {
        self.tell(commands).await?;
        let mut answers = Vec::with_capacity(commands.len());
        while answers.len() < commands.len() {
            match self.next().await? {
                // What changed before the connection was ready is told as "all" once it is.
                Value::Push { .. } => {}
                value => answers.push(value),
            }
        }
        Ok(answers)
    }

    /// Sends all commands at once, and reads nothing.
    pub(super) async fn tell(&mut self, commands: &[Cmd]) -> Result<(), Fault> {
        let bytes: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        let written = self.stream.write_all(&bytes).await;
        // TLS may have taken bytes that it has not written yet.
        let written = match written {
            Ok(()) => self.stream.flush().await,
            failed => failed,
        };
        match written {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refused_write(error).await),
        }
    }

    /// Why nothing can be written any more: over TLS the server may have said so.
    async fn refused_write(&mut self, error: std::io::Error) -> Fault {
        if self.stream.is_tls()
            && let Err(reason) = self.stream.read_buf(&mut self.reader.unread).await
        {
            return self.broken(&reason);
        }
        self.broken(&error)
    }

    /// The fault of a connection that ended while it was opened.
    fn broken(&mut self, error: &std::io::Error) -> Fault {
        // With an error of its own inside, the server has said what is wrong.
        self.hung_up = self.reader.partial() == 0 && error.get_ref().is_none();
        Fault::new(format!("the connection broke: {}", self.stream.explained(error))).by(error)
    }

    /// What is said next, of its own accord or as an answer. Dropped, it loses nothing.
    pub(super) async fn next(&mut self) -> Result<Value, Fault> {
        loop {
            match self.reader.next() {
                Ok(Some(value)) => return Ok(value),
                Ok(None) if self.reader.partial() > LARGEST => {
                    return Err(Fault::new("the greeting was answered by too much"));
                }
                Ok(None) => {
                    let unread = &mut self.reader.unread;
                    let read = match self.stream.read_buf(unread).await {
                        Ok(read) => read,
                        Err(error) => return Err(self.broken(&error)),
                    };
                    if read == 0 {
                        self.hung_up = self.reader.partial() == 0;
                        return Err(Fault::new(
                            "the server closed the connection during the greeting",
                        ));
                    }
                    if self.reader.partial() == 0 && is_tls_record(&self.reader.unread) {
                        return Err(Fault::new(
                            "the server speaks TLS on this port: write rediss:// instead of redis://",
                        ));
                    }
                    self.reader.came(read);
                }
                Err(_) => {
                    return Err(Fault::new("the greeting was not answered in Redis' protocol"));
                }
            }
        }
    }
}

/// Whether it is the beginning of an alert of TLS, of any version: a server that expects TLS replies so to all else.
fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15, 3, ..])
}

/// The fault of a server that cannot be reached.
pub(super) fn cannot_connect(error: &std::io::Error) -> Fault {
    Fault::new("cannot connect: ").saying(&error.to_string(), "").by(error)
}
