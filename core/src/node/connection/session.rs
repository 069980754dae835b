//! The life of one open connection: write what is asked, match answers by order, notice when it is dead.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use redis::{Cmd, PushKind, Value, ValueCodec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::codec::Decoder;

use super::super::reply;
use super::handshake::{Greeting, load_scripts};
use super::stream::Stream;
use super::{Change, Command, Connection, Fault, Purpose, Question};

/// How a session ended.
pub(super) enum End {
    /// The client is gone and everything was answered.
    Idle,
    Broken(Fault),
}

const TICK: Duration = Duration::from_millis(250);
/// A server silent for this long with questions open is dead, unless a caller has more patience.
const SILENCE: Duration = Duration::from_secs(1);
/// Unsent bytes beyond which no more commands are taken: the server reads nothing.
const FULL: usize = 4 << 20;
const BATCH: usize = 256;
/// So much is read at once.
const READ: usize = 16 << 10;
/// An answer of more bytes than this is none of ours; no memory is spent on the rest of it.
const LARGEST: usize = 1 << 20;

pub(super) struct Session<'a> {
    connection: &'a mut Connection,
    stream: Stream,
    codec: ValueCodec,
    unread: BytesMut,
    unsent: BytesMut,
    open: VecDeque<Command>,
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

    fn write(&mut self, command: Command) {
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

    fn answer(&mut self, mut command: Command, value: Value) -> Option<Fault> {
        let question = &command.question;
        if question.echo.as_deref().is_some_and(|echo| !reply::echoes(&value, echo)) {
            let fault = reply::unexpected(&value);
            self.connection.refuse(command, &fault);
            return Some(fault);
        }
        let forgotten = matches!(&value, Value::ServerError(error) if error.code() == "NOSCRIPT");
        let wanted =
            matches!(question.purpose, Purpose::Delete { .. }) || !command.answer.is_closed();
        if forgotten && wanted && !command.again {
            // A round that is over drops its answers before it sends its deletes, so an acquire
            // that is still listened to has no delete ahead of it here.
            load_scripts().for_each(|load| self.write(unheard(&load)));
            command.again = true;
            self.write(command);
        } else {
            let _ = command.answer.send(Ok(value));
        }
        None
    }

    fn pushed(&self, kind: &PushKind, data: &[Value]) {
        if *kind != PushKind::Invalidate {
            return;
        }
        match data.first() {
            Some(Value::Array(keys)) => {
                for key in keys {
                    if let Value::BulkString(key) = key {
                        let key = String::from_utf8_lossy(key).into_owned();
                        self.connection.watch.changed(Change::Key(key));
                    }
                }
            }
            _ => self.connection.watch.changed(Change::All),
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

fn unheard(command: &Cmd) -> Command {
    Command::unheard(Question {
        bytes: command.get_packed_command(),
        echo: None,
        purpose: Purpose::Question,
        patience: SILENCE,
    })
}
