//! The life of one open connection: write what is asked, read what is answered, notice when it is dead.
//!
//! It moves bytes and keeps time; what they mean is [`super::dialogue`]'s. All connections of a process share
//! one thread, so nothing here may take long at once.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use bytes::BufMut;
use redis::Value;
use tokio::io::AsyncReadExt;
use tokio::task::yield_now;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::context::{Context, Opening};
use super::dialogue::Dialogue;
use super::in_flight::InFlight;
use super::pipeline::TICK;
use super::reader::Reader;
use super::renewal::Renewal;
use super::route::{Found, News};
use super::stream::{Half, Stream};
use super::talk::Talk;
use crate::node::Fault;

/// How a session ended.
pub(super) enum End {
    /// The client is gone and everything was answered.
    Idle,
    /// The connection is of no use any more.
    Broken(Fault),
}

/// How often is done what nobody asks for.
/// No chore is urgent: each is a repetition.
const CHORES: Duration = Duration::from_secs(1);
/// So many commands are taken at once.
/// Enough for one write; what is behind them goes on at the next turn.
const BATCH: usize = 256;
/// So much is read at once.
/// Some hundred answers. Not more: what one server says must not hold up the others.
const READ: usize = 16 << 10;
/// An answer of more bytes than this is none of ours; no memory is spent on the rest of it. The parser itself reserves
/// nothing for what a header promises.
const LARGEST: usize = 1 << 20;

/// One open connection. Dropping it refuses what has no answer, unless it ended well.
pub(super) struct Session<'a> {
    /// What was asked, what is owed, and who is told.
    dialogue: Dialogue<'a>,
    /// Dropped, it is closed; reset first where the session ended broken.
    stream: Stream,
    /// Where its server was found.
    found: Found,
    /// Word that it is another one now.
    news: News,
    /// Logs in again, where a login does not last.
    renewal: Option<Renewal>,
    /// What was read, and is not understood yet.
    reader: Reader,
    /// The client is there: there may be more to ask.
    more: bool,
    /// Why it ended, for those whose answers never came; `None` in the end of which nothing is left.
    end: Option<Fault>,
}

impl<'a> Session<'a> {
    /// A session over a connection that is ready for locks.
    pub(super) fn new(context: &'a mut Context, opening: Opening, waiting: Vec<InFlight>) -> Self {
        let Opening { greeting, killed, found } = opening;
        let renewal =
            greeting.login.and_then(|(provider, granted)| Renewal::of(provider, &granted));
        let Talk { stream, reader } = greeting.talk;
        let news = context.finder.news();
        Self {
            dialogue: Dialogue::begin(context, &stream, (killed, greeting.deletes_by), waiting),
            stream,
            found,
            news,
            renewal,
            reader,
            more: true,
            // Until it is known better: this is what a panic leaves behind.
            end: Some(Fault::new("the node's own task failed: this is a bug in redlock")),
        }
    }

    /// Serves until the client is gone and everything was answered, or the connection breaks.
    pub(super) async fn run(mut self) -> End {
        let end = self.converse().await;
        self.end = match &end {
            End::Idle => None,
            End::Broken(fault) => Some(fault.clone()),
        };
        end
    }

    /// Until the end: bytes out, bytes in, and the time in between.
    async fn converse(&mut self) -> End {
        let mut batch = Vec::with_capacity(BATCH);
        let (mut tick, mut chores) = (every(TICK), every(CHORES));
        // The first one in a while, not at once: the greeting has just asked all that they ask.
        chores.reset();
        loop {
            self.dialogue.ask_to_confirm();
            let busy = self.dialogue.has_chores();
            let Dialogue { context, pipeline, .. } = &mut self.dialogue;
            let (open, unwritten) = (pipeline.is_open(), pipeline.is_unwritten());
            if !self.more && !open && !unwritten {
                return End::Idle;
            }
            let room = self.more && pipeline.has_room();
            let stream = Mutex::new(&mut self.stream);
            let (mut reader, mut writer) = (Half(&stream), Half(&stream));
            let mut unread = (&mut self.reader.unread).limit(READ);
            // In no fixed order: a server that never stops talking must not keep commands, or the client's end,
            // waiting.
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
                taken = context.commands.recv_many(&mut batch, BATCH), if room => {
                    // None: every sender is gone, and with them the client.
                    self.more = taken > 0;
                    self.ask(&mut batch);
                }
                written = pipeline.write(&mut writer), if unwritten => if let Err(error) = written {
                    return End::Broken(broken(&error));
                },
                login = Renewal::next(&mut self.renewal), if self.more => self.log_in(login),
                // At once, not at the next failure: a primary that was left goes on answering for a while.
                fault = self.news.left(&self.found) => return End::Broken(fault),
                _ = chores.tick(), if busy => self.dialogue.do_chores(),
                _ = tick.tick(), if open => {
                    if let Some(fault) = self.dialogue.pipeline.count_silence() {
                        return End::Broken(fault);
                    }
                }
            }
        }
    }

    /// Asks what the client wants to know, and behind it for what confirms it.
    fn ask(&mut self, batch: &mut Vec<InFlight>) {
        batch.drain(..).for_each(|command| self.dialogue.take(command));
        self.dialogue.ask_to_confirm();
        // Nearly always the socket has room: writing now spares a turn of the loop.
        self.dialogue.pipeline.write_now(&self.stream);
    }

    /// A login that does not last is made anew, or cannot be.
    fn log_in(&mut self, login: Result<InFlight, Fault>) {
        match login {
            Ok(login) => self.dialogue.ask(login),
            Err(fault) => {
                if self.renewal.as_mut().is_some_and(Renewal::is_news) {
                    self.dialogue.context.warn_of_login(fault);
                }
            }
        }
    }

    /// Bytes came, or the end did. A fault ends the session.
    fn read(&mut self, read: io::Result<usize>) -> Option<Fault> {
        match read {
            Ok(0) => return Some(Fault::new("the server closed the connection")),
            Err(error) => return Some(broken(&error)),
            Ok(count) => {
                // Once the client is gone, answers that do not come are waited for no longer, whatever else is said.
                if self.more {
                    self.dialogue.pipeline.heard();
                }
                self.reader.came(count);
            }
        }
        loop {
            let fault = match self.reader.next() {
                Ok(None) if self.reader.partial() > LARGEST => {
                    Some(Fault::new("an answer is larger than any that a lock can have"))
                }
                Ok(None) => return None,
                Ok(Some(Value::Push { kind, data })) => self.dialogue.pushed(&kind, &data),
                Ok(Some(value)) => self.dialogue.answered(value),
                Err(_) => Some(Fault::new("the server did not speak Redis' protocol")),
            };
            if fault.is_some() {
                return fault;
            }
        }
    }
}

/// Also when it panics, or when its task is dropped: nobody waits for an answer that cannot come.
impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(fault) = self.end.take() {
            self.stream.reset_on_drop();
            self.dialogue.broken(&fault);
        }
    }
}

/// A timer that is late rather than often, where this thread was busy.
fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// In the words of the system, which name no secret.
fn broken(error: &io::Error) -> Fault {
    Fault::new(format!("the connection broke: {error}")).by(error)
}
