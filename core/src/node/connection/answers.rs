//! What becomes of an answer: matched with its question, and handed to whoever asked.

use redis::{Cmd, PushKind, Value};

use super::super::reply;
use super::handshake::load_scripts;
use super::session::{SILENCE, Session};
use super::{Change, Command, Expects, Fault, Purpose, Question};

impl Session<'_> {
    /// `value` answers this command, or it is a fault of the connection: its answers are not to be trusted any more.
    pub(super) fn answer(&mut self, mut command: Command, value: Value) -> Option<Fault> {
        if !fits(&command, &value) {
            let fault = reply::unexpected(&value).hushed(&self.connection.target.server);
            self.connection.refuse(command, &fault);
            return Some(fault);
        }
        if matches!(command.question.expects, Expects::Owner) && !command.half {
            command.half = true;
            self.open.push_front(command);
        } else if forgotten(&command, &value) {
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

    pub(super) fn pushed(&self, kind: &PushKind, data: &[Value]) {
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
}

fn fits(command: &Command, value: &Value) -> bool {
    match &command.question.expects {
        Expects::Anything => true,
        Expects::Echo(echo) => reply::echoes(value, echo),
        Expects::Owner if !command.half => reply::sets(value),
        Expects::Owner => reply::owns(value),
    }
}

/// The server has lost the scripts, and somebody still wants the answer.
fn forgotten(command: &Command, value: &Value) -> bool {
    let wanted =
        matches!(command.question.purpose, Purpose::Delete { .. }) || !command.answer.is_closed();
    let lost = matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT");
    lost && wanted && !command.again
}

fn unheard(command: &Cmd) -> Command {
    Command::unheard(Question {
        bytes: command.get_packed_command(),
        expects: Expects::Anything,
        purpose: Purpose::Question,
        patience: SILENCE,
    })
}
