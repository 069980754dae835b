//! What becomes of an answer: matched with its question, and handed to whoever asked.

use std::sync::Arc;

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
        if command.has_two_answers() {
            command.first = Some(value);
            self.open.push_front(command);
        } else if forgotten(&command, &value) {
            // A round that is over drops its answers before it sends its deletes, so an acquire
            // that is still listened to has no delete ahead of it here.
            load_scripts().for_each(|load| self.write(unheard(&load)));
            (command.again, command.first) = (true, None);
            self.write(command);
        } else {
            self.settled(command, value);
        }
        None
    }

    fn settled(&mut self, command: Command, value: Value) {
        match (&command.question.purpose, self.unkilled) {
            (Purpose::Age, _) => self.read_age(&value),
            (Purpose::Force { keys, delete }, _) if let Some(now) = reply::time(&value) => {
                let patience = command.question.patience.as_micros();
                let by = now.saturating_add(u64::try_from(patience).unwrap_or(u64::MAX));
                let (keys, question) = (Arc::clone(keys), delete(keys, by));
                self.write(Command::new(question, command.answer));
                // The server does not push to the connection that deleted; what is asked now goes behind the delete.
                self.connection.watch.changed_keys(&keys);
                return;
            }
            // What the former connection carried may still arrive, behind this delete.
            (Purpose::Delete { owed, .. }, Some(opened))
                if opened + *owed > self.connection.clock.now() =>
            {
                self.connection.debts.owe_again(command.question.clone(), opened);
            }
            _ => {}
        }
        let _ = command.answer.send(Ok(believed(&command.question, command.first.as_ref(), value)));
    }

    /// What a server says by itself; a fault where it is too much.
    pub(super) fn pushed(&mut self, kind: &PushKind, data: &[Value]) -> Option<Fault> {
        if *kind != PushKind::Invalidate {
            return None;
        }
        let now = self.connection.clock.now();
        let Some(Value::Array(keys)) = data.first() else {
            let flood = self.flood.told(None, now);
            if flood.is_none() {
                self.connection.watch.changed(Change::All);
            }
            return flood;
        };
        if let Some(flood) = self.flood.told(Some(keys.len()), now) {
            return Some(flood);
        }
        for key in keys {
            if let Value::BulkString(key) = key {
                let key = String::from_utf8_lossy(key).into_owned();
                self.connection.watch.changed(Change::Key(key));
            }
        }
        None
    }
}

/// A `GET` says whose a key is only for whoever set it just before: the other answers are the script's to give.
fn believed(question: &Question, first: Option<&Value>, value: Value) -> Value {
    let set = !matches!(question.expects, Expects::Owner) || first == Some(&Value::Okay);
    if set { value } else { Value::Nil }
}

fn fits(command: &Command, value: &Value) -> bool {
    match &command.question.expects {
        _ if command.has_two_answers() => reply::sets(value),
        Expects::Anything => true,
        Expects::Echo(echo) => reply::echoes(value, echo),
        Expects::Owner => reply::owns(value),
        Expects::Time => reply::time(value).is_some() || matches!(value, Value::ServerError(_)),
    }
}

/// The server has lost the scripts, and somebody still wants the answer.
fn forgotten(command: &Command, value: &Value) -> bool {
    let wanted =
        matches!(command.question.purpose, Purpose::Delete { .. }) || !command.answer.is_closed();
    let lost = matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT");
    lost && wanted && !command.again
}

pub(super) fn unheard(command: &Cmd) -> Command {
    Command::unheard(plain(command, Purpose::Question))
}

/// A question of the connection's own.
pub(super) fn plain(command: &Cmd, purpose: Purpose) -> Question {
    Question {
        bytes: command.get_packed_command().into(),
        expects: Expects::Anything,
        purpose,
        patience: SILENCE,
        untracked: false,
    }
}
