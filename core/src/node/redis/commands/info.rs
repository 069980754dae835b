//! Requests of a new connection, and what `INFO` replies.

use redis::{Cmd, Value, cmd};

use super::scripts::scripts;

/// Returns the text of a reply to `INFO`, or an empty text.
pub(crate) fn text(info: &Value) -> String {
    match info {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

/// Returns the value of a field of an `INFO` section.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim())
}

/// Sets the name of the connection, which `CLIENT LIST` shows to find the cause of a load.
pub(crate) fn named(client_name: &str) -> Cmd {
    cmd("CLIENT").arg("SETNAME").arg(client_name).clone()
}

/// Requests a section of `INFO`.
pub(crate) fn about(section: &str) -> Cmd {
    cmd("INFO").arg(section).clone()
}

/// Loads the scripts into the server.
pub(crate) fn load_scripts() -> impl Iterator<Item = Cmd> {
    scripts().iter().map(|script| cmd("SCRIPT").arg("LOAD").arg(&script.text).clone())
}
