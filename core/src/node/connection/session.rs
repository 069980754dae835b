//! The life of one open connection: write what is asked, match answers by order, notice when it is dead.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use redis::{Value, ValueCodec};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::codec::Decoder;

use super::answers::plain;
use super::command::{UNTRACKED, VotesFrom};
use super::flood::Flood;
use super::handshake::{Talk, about, text, votes_after};
use super::stream::Stream;
use super::{Command, Connection, Fault, Purpose, Question};
use crate::clock::Instant;

/// How a session ended.
pub(super) enum End {
    /// The client is gone and everything was answered.
    Idle,
    Broken(Fault),
}

const TICK: Duration = Duration::from_millis(250);
/// How often is done what nobody asks for.
const CHORES: Duration = Duration::from_secs(1);
/// Every so many chores an age that could not be read is asked for again.
const AGE: u32 = 5;
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
    /// TLS has taken bytes that it may not have written yet.
    unflushed: bool,
    pub(super) open: VecDeque<Command>,
    /// Time with open questions in which nothing was read, counted by ticks so that our own pause is not the server's.
    silence: Duration,
    /// Bytes read since the last whole answer.
    partial: usize,
    /// The client is there: there may be more to ask.
    more: bool,
    /// When the session began, if the former connection may still be alive for the server.
    pub(super) unkilled: Option<Instant>,
    pub(super) flood: Flood,
    /// The server's age could not be read, and may be later.
    ageless: bool,
    chores: u32,
    /// Why it ended, for those whose answers never came; `None` in the end of which nothing is left.
    end: Option<Fault>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        connection: &'a mut Connection,
        talk: Talk,
        killed: bool,
        waiting: Vec<Command>,
    ) -> Self {
        let ageless = matches!(connection.link.votes_from(), VotesFrom::Never);
        let unkilled = (!killed).then(|| connection.clock.now());
        let flood = Flood::new(connection.clock.now());
        let mut session = Self {
            connection,
            stream: talk.stream,
            codec: talk.codec,
            unread: talk.unread,
            unsent: BytesMut::with_capacity(4096),
            unflushed: false,
            open: VecDeque::new(),
            silence: Duration::ZERO,
            partial: 0,
            more: true,
            unkilled,
            flood,
            ageless,
            chores: 0,
            end: Some(Fault::new("the node's own task failed: this is a bug in redlock")),
        };
        session.pay_debts();
        waiting.into_iter().for_each(|command| session.take(command));
        session
    }

    pub(super) async fn run(mut self) -> End {
        let end = self.converse().await;
        self.end = match &end {
            End::Idle => None,
            End::Broken(fault) => Some(fault.clone()),
        };
        end
    }

    async fn converse(&mut self) -> End {
        let mut batch = Vec::with_capacity(BATCH);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut chores = interval(CHORES);
        chores.set_missed_tick_behavior(MissedTickBehavior::Delay);
        chores.reset();
        loop {
            let unwritten = self.unflushed || !self.unsent.is_empty();
            if !self.more && self.open.is_empty() && !unwritten {
                return End::Idle;
            }
            let busy = self.has_chores();
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
                written = push(&mut writer, &mut self.unsent), if unwritten => match written {
                    Ok(flushed) => self.unflushed &= !flushed,
                    Err(error) => return End::Broken(broken(&error)),
                },
                _ = chores.tick(), if busy => self.do_chores(),
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
        #[cfg(test)]
        super::tests::may_panic(&command.question);
        let first = matches!(command.question.purpose, Purpose::FirstVote { .. });
        if first && command.answer.is_closed() {
            self.connection.debts.never_sent(&command.question);
            return;
        }
        if let Some(fault) = self.connection.guarded(&command) {
            self.connection.debts.never_sent(&command.question);
            let _ = command.answer.send(Err(fault));
            return;
        }
        self.write(command);
    }

    pub(super) fn write(&mut self, command: Command) {
        if self.open.is_empty() {
            self.silence = Duration::ZERO;
        }
        self.connection.debts.sending(&command.question);
        self.flood.asked(&command.question.bytes);
        if command.question.untracked {
            self.unsent.extend_from_slice(UNTRACKED);
        }
        self.unsent.extend_from_slice(&command.question.bytes);
        self.unflushed |= matches!(self.stream, Stream::Tls(_));
        self.open.push_back(command);
    }

    fn pay_debts(&mut self) {
        for question in self.connection.debts.take() {
            self.write(Command::unheard(Question { untracked: true, ..question }));
        }
    }

    fn has_chores(&self) -> bool {
        self.ageless || (self.unkilled.is_some() && !self.connection.debts.is_empty())
    }

    fn do_chores(&mut self) {
        if self.ageless && self.chores.is_multiple_of(AGE) {
            self.write(Command::unheard(plain(&about("server"), Purpose::Age)));
        }
        self.chores += 1;
        // What was paid may be made anew by a connection that lives on: paid again, ever more rarely, for a ttl.
        if self.unkilled.is_some() && self.chores.is_power_of_two() {
            let now = self.connection.clock.now();
            self.connection.debts.forget_expired(now);
            self.pay_debts();
        }
    }

    pub(super) fn read_age(&mut self, answer: &Value) {
        if matches!(answer, Value::ServerError(_)) {
            // It will not be told later either.
            self.ageless = false;
        } else if let Some(wait) = votes_after(&text(answer), self.connection.target.guard) {
            self.ageless = false;
            self.connection.link.vote_from(self.connection.votes_after(wait));
        }
    }

    fn read(&mut self, read: io::Result<usize>) -> Option<Fault> {
        match read {
            Ok(0) => return Some(Fault::new("the server closed the connection")),
            Err(error) => return Some(broken(&error)),
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
                Ok(Some(Value::Push { kind, data })) => {
                    if let Some(fault) = self.pushed(&kind, &data) {
                        return Some(fault);
                    }
                }
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

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let Some(fault) = self.end.take() else { return };
        self.stream.reset_on_drop();
        let mut unwritten = self.unsent.len();
        for command in self.open.iter().rev() {
            let Some(left) = unwritten.checked_sub(command.length()) else { break };
            unwritten = left;
            self.connection.debts.never_sent(&command.question);
        }
        for command in std::mem::take(&mut self.open) {
            self.connection.refuse(command, &fault);
        }
    }
}

/// Writes something of it, or flushes what was written; true once all is.
async fn push(writer: &mut (impl AsyncWrite + Unpin), unsent: &mut BytesMut) -> io::Result<bool> {
    if unsent.is_empty() {
        writer.flush().await.map(|()| true)
    } else {
        writer.write_buf(unsent).await.map(|_| false)
    }
}

fn broken(error: &io::Error) -> Fault {
    Fault::new(format!("the connection broke: {error}"))
}
