//! Server replies into answers. Only exact ones count: anything else is a fault, never "held by another".

use std::time::Duration;

use redis::Value;

use super::{Extension, Fault, Holder, Vote};

pub(super) type Answer<T> = Result<T, Fault>;

pub(super) fn vote(value: Value) -> Answer<Vote> {
    let Value::Array(parts) = &value else {
        return Err(unexpected(&value));
    };
    match parts.as_slice() {
        [Value::Int(1), Value::Int(_)] => Ok(Vote::Granted),
        [Value::Int(0), Value::Int(left)] => Ok(Vote::Held(remaining(*left))),
        _ => Err(unexpected(&value)),
    }
}

pub(super) fn extension(value: Value) -> Answer<Extension> {
    match value {
        Value::Int(1) => Ok(Extension::Extended),
        Value::Int(0) => Ok(Extension::Missing),
        Value::Int(-1) => Ok(Extension::Taken),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn released(value: Value) -> Answer<bool> {
    match value {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn count(value: Value) -> Answer<bool> {
    match value {
        Value::Int(deleted @ 0..) => Ok(deleted > 0),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn holder(value: Value) -> Answer<Option<Holder>> {
    let Value::Array(parts) = &value else {
        return Err(unexpected(&value));
    };
    match parts.as_slice() {
        [Value::Nil, Value::Int(_)] => Ok(None),
        [Value::BulkString(token), Value::Int(left)] => Ok(Some(Holder {
            token: String::from_utf8_lossy(token).into_owned(),
            remaining: remaining(*left),
        })),
        _ => Err(unexpected(&value)),
    }
}

/// -1 is a key without an end; -2, a key that ended between two reads, is free now.
fn remaining(pttl: i64) -> Option<Duration> {
    match pttl {
        -1 => None,
        left => Some(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
    }
}

/// The server's own error, explained where its text alone would puzzle.
pub(super) fn refusal(text: &str) -> Fault {
    let hint = match text.split_whitespace().next() {
        Some("WRONGTYPE") => {
            " (the key holds data of another type, it is no lock: choose another name or key_prefix)"
        }
        Some("NOPERM") => {
            " (locks need EVALSHA, SCRIPT LOAD, GET, SET, PTTL, PEXPIRE and DEL on their keys)"
        }
        Some("NOAUTH") => " (put the password into the node's URL)",
        Some("READONLY") => " (the server is a replica)",
        _ => "",
    };
    Fault::new(format!("the server answered {text}{hint}"))
}

fn unexpected(value: &Value) -> Fault {
    match value {
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            refusal(&format!("{} {details}", error.code()))
        }
        other => {
            let kind = format!("{other:?}");
            let shown: String = kind.chars().take(60).collect();
            Fault::new(format!(
                "the server gave no answer that a lock can have: {shown}"
            ))
        }
    }
}
