//! The output: messages for people and events for programs on stderr, results on stdout.
//!
//! A closed output must not end a command that holds a lock. Errors of writing messages are ignored.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};

use redlock::{Error, ErrorKind};
use serde_json::{Value, json};

use crate::status::Status;

/// Writes a message to stderr.
pub(crate) fn print_message(text: &str) {
    let _ = writeln!(io::stderr(), "redlock: {text}");
}

/// Writes a line of a result to stdout. Ends the process if its reader has ended, because results are its only purpose.
/// A command that holds a lock prints none.
pub(crate) fn print(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        if error.kind() != io::ErrorKind::BrokenPipe {
            print_message(&format!("cannot write the result: {error}"));
        }
        std::process::exit(1);
    }
}

/// How a command reports what happens.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    pub(crate) json: bool,
}

impl Report {
    /// Reports an event to programs. `fields` is an object.
    pub(crate) fn event(self, name: &str, fields: Value) {
        if !self.json {
            return;
        }
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        let mut event = json!({ "at": now.to_string(), "event": name });
        if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        let _ = writeln!(io::stderr(), "{event}");
    }

    /// Reports an event to programs, or a message to people.
    pub(crate) fn problem(self, name: &str, fields: Value, message: &str) {
        if self.json { self.event(name, fields) } else { print_message(message) }
    }

    /// Reports why a command failed. Returns its exit status.
    pub(crate) fn failure(self, error: &Error) -> Status {
        let message = error.to_string();
        let fields = json!({ "code": error.code(), "holder": error.holder(), "message": message });
        // As flock, because cron would send each message by mail. A lock that another host holds is no problem there.
        if self.json || error.kind() != ErrorKind::Timeout || io::stderr().is_terminal() {
            self.problem("failed", fields, &message);
        }
        Status::of_error(error)
    }
}

/// How long a wait may be without a reply before it says why.
const SILENT: Duration = Duration::from_secs(2);

/// A wait for servers that do not reply, which would otherwise look like one for another client.
pub(crate) struct Silence {
    report: Report,
    last_reply: Instant,
    said: HashSet<String>,
}

impl Silence {
    pub(crate) fn new(report: Report) -> Self {
        Self { report, last_reply: Instant::now(), said: HashSet::new() }
    }

    /// Notes a reply, or why there is none. Says each reason once, until there is a reply.
    pub(crate) fn record_reply(&mut self, error: Option<&Error>) {
        let Some(error) = error else {
            self.last_reply = Instant::now();
            return self.said.clear();
        };
        let message = error.to_string();
        if self.last_reply.elapsed() >= SILENT && self.said.insert(message.clone()) {
            let fields = json!({ "code": error.code(), "message": message });
            self.report.problem("unreachable", fields, &format!("still waiting. {message}"));
        }
    }
}
