//! The life of one open connection: write what is asked, match answers by order, notice when it is dead.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use redis::{Value, ValueCodec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::codec::Decoder;

use super::handshake::Greeting;
use super::stream::Stream;
use super::{Command, Connection, Fault, Purpose};

/// How a session ended.
pub(super) enum End {
    /// The client is gone and everything was answered.
    Idle,
    Broken(Fault),
}

const TICK: Duration = Duration::from_millis(250);
/// A server silent for this long with questions open is dead, unless a caller has more patience.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
/// Unsent bytes beyond which no more commands are taken: the server reads nothing.
const FULL: usize = 4 << 20;
const BATCH: usize = 256;
/// So much is read at once.
const READ: usize = 16 << 10;
/// An answer of more bytes than this is none of ours; no memory is spent on the rest of it.
const LARGEST: usize = 1 << 20;

pub(super) struct Session<'a> {
    pub(super) connection: &'a mut Connection,
    stream: Stream,
    codec: ValueCodec,
    unread: BytesMut,
    unsent: BytesMut,
    pub(super) open: VecDeque<Command>,
    /// Time with open questions in which nothing was read, counted by ticks so that our own pause is not the server's.
    silence: Duration,
    /// Bytes read since the last whole answer.
    partial: usize,
    /// The client is there: there may be more to ask.
    more: bool,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        connection: &'a mut Connection,
        greeting: Greeting,
        first: Option<Command>,
    ) -> Self {
        let mut session = Self {
            connection,
            stream: greeting.stream,
            codec: greeting.codec,
            unread: greeting.unread,
            unsent: BytesMut::with_capacity(4096),
            open: VecDeque::new(),
            silence: Duration::ZERO,
            partial: 0,
            more: true,
        };
        session.pay_debts();
        if let Some(command) = first {
            session.take(command);
        }
        session
    }

    pub(super) async fn run(mut self) -> End {
        let end = self.converse().await;
        let fault = match &end {
            End::Idle => Fault::new("the client is closed"),
            End::Broken(fault) => fault.clone(),
        };
        for command in std::mem::take(&mut self.open) {
            self.connection.refuse(command, &fault);
        }
        end
    }

    async fn converse(&mut self) -> End {
        let mut batch = Vec::with_capacity(BATCH);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if !self.more && self.open.is_empty() && self.unsent.is_empty() {
                return End::Idle;
            }
            let room = self.more && self.unsent.len() < FULL;
            let (mut reader, mut writer) = tokio::io::split(&mut self.stream);
            let mut unread = (&mut self.unread).limit(READ);
            // In no fixed order: a server that never stops talking must not keep commands, or the client's end, waiting.
            tokio::select! {
                read = reader.read_buf(&mut unread) => {
                    let much = read.as_ref().is_ok_and(|count| *count > READ / 4);
                    if let Some(fault) = self.read(read) {
                        return End::Broken(fault);
                    }
                    if much {
                        // All connections share one thread: whoever talks a lot lets the others go on.
                        yield_now().await;
                    }
                }
                taken = self.connection.commands.recv_many(&mut batch, BATCH), if room => {
                    self.more = taken > 0;
                    batch.drain(..).for_each(|command| self.take(command));
                    // Nearly always the socket has room: writing now spares a turn of the loop.
                    self.write_now();
                }
                written = writer.write_buf(&mut self.unsent), if !self.unsent.is_empty() => {
                    if let Err(error) = written {
                        return End::Broken(Fault::new(format!("the connection broke: {error}")));
                    }
                }
                _ = tick.tick(), if !self.open.is_empty() => {
                    if let Some(fault) = self.listen_to_silence() {
                        return End::Broken(fault);
                    }
                }
            }
        }
    }

    fn write_now(&mut self) {
        if let Ok(written) = self.stream.try_write(&self.unsent) {
            let _ = self.unsent.split_to(written);
        }
    }

    fn take(&mut self, command: Command) {
        if matches!(command.question.purpose, Purpose::FirstVote) && command.answer.is_closed() {
            return;
        }
        if let Some(fault) = self.connection.guarded(&command) {
            let _ = command.answer.send(Err(fault));
            return;
        }
        self.write(command);
    }

    pub(super) fn write(&mut self, command: Command) {
        if self.open.is_empty() {
            self.silence = Duration::ZERO;
        }
        self.unsent.extend_from_slice(&command.question.bytes);
        self.open.push_back(command);
    }

    fn pay_debts(&mut self) {
        self.connection.forget_expired();
        for debt in std::mem::take(&mut self.connection.owed) {
            self.write(Command::unheard(debt.question));
        }
    }

    fn read(&mut self, read: std::io::Result<usize>) -> Option<Fault> {
        match read {
            Ok(0) => return Some(Fault::new("the server closed the connection")),
            Err(error) => return Some(Fault::new(format!("the connection broke: {error}"))),
            Ok(count) => {
                // Once the client is gone, answers that do not come are waited for no longer, whatever else is said.
                if self.more {
                    self.silence = Duration::ZERO;
                }
                self.partial += count;
            }
        }
        loop {
            let decoded = self.codec.decode(&mut self.unread);
            if matches!(decoded, Ok(Some(_))) {
                self.partial = self.unread.len();
            }
            match decoded {
                Ok(None) if self.partial > LARGEST => {
                    return Some(Fault::new("an answer is larger than any that a lock can have"));
                }
                Ok(Some(Value::Push { kind, data })) => self.pushed(&kind, &data),
                Ok(Some(value)) => {
                    let Some(command) = self.open.pop_front() else {
                        return Some(Fault::new("the server answered what nobody asked"));
                    };
                    if let Some(fault) = self.answer(command, value) {
                        return Some(fault);
                    }
                }
                Ok(None) => return None,
                Err(_) => return Some(Fault::new("the server did not speak Redis' protocol")),
            }
        }
    }

    fn listen_to_silence(&mut self) -> Option<Fault> {
        self.silence += TICK;
        let patience = self.open.iter().map(|command| command.question.patience).max();
        let limit = patience.unwrap_or_default().max(SILENCE);
        (self.silence > limit + TICK)
            .then(|| Fault::new(format!("the server was silent for {:.1} s", limit.as_secs_f64())))
    }
}
