//! Server replies into answers. Only exact ones count: anything else is a fault, never "held by another".
//!
//! The shapes are those that the scripts promise (`acquire.lua` and the others); `tests/vectors/replies.toml`
//! plays odd ones.

use std::time::Duration;

use redis::Value;

use crate::node::{Extension, Fault, Holder, Taken, Vote};
use crate::spelling::camel_case;

/// What a reply says, or that it says nothing that counts.
pub(super) type Answer<T> = Result<T, Fault>;

/// Whether an answer is one to this question: it ends with what the script was asked for.
/// A server's error names nothing, and never counts.
pub(super) fn echoes(value: &Value, asked: &str) -> bool {
    match value {
        Value::Array(parts) => {
            matches!(parts.last(), Some(Value::BulkString(echo)) if echo == asked.as_bytes())
        }
        Value::ServerError(_) => true,
        _ => false,
    }
}

/// Whether it can be the answer to `SET NX`.
pub(super) fn sets(value: &Value) -> bool {
    matches!(value, Value::Okay | Value::Nil | Value::ServerError(_))
}

/// Whether it can be the answer to `GET`.
pub(super) fn owns(value: &Value) -> bool {
    matches!(value, Value::BulkString(_) | Value::Nil | Value::ServerError(_))
}

/// The server's own time in us, as `TIME` tells it.
/// A number that runs over is no time.
pub(super) fn time(value: &Value) -> Option<u64> {
    let Value::Array(parts) = value else { return None };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = &parts[..] else { return None };
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

/// The answer to `acquire`.
pub(super) fn vote(value: &Value) -> Answer<Vote> {
    match parts(value)? {
        [Value::Int(1), Value::Int(_), Value::BulkString(fence)] => {
            fence_token(fence).map(Vote::Granted).ok_or_else(|| unexpected(value))
        }
        [Value::Int(0), Value::Int(left), Value::BulkString(which)] => {
            let taken = places(which).ok_or_else(|| unexpected(value))?;
            Ok(Vote::Held(remaining(*left), taken))
        }
        _ => Err(unexpected(value)),
    }
}

/// The keys that others have, counted from 1 as Lua does, with a comma behind each; and a k where these only stay.
///
/// One text rather than a list: the answer keeps its shape, however many there are.
fn places(list: &[u8]) -> Option<Taken> {
    let list = std::str::from_utf8(list).ok()?;
    let (places, kept) = list.strip_suffix('k').map_or((list, false), |places| (places, true));
    let place = |place: &str| place.parse::<usize>().ok()?.checked_sub(1);
    let taken = places.split_terminator(',').map(place).collect::<Option<Taken>>()?;
    Some(taken.that_stay(kept))
}

/// Digits only: a fence must come back exactly as the script wrote it.
/// Empty without fencing. As text: a Lua number loses digits above 10^14 on its way out.
fn fence_token(digits: &[u8]) -> Option<Option<u64>> {
    match std::str::from_utf8(digits).ok()? {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

/// The answer to `extend`.
pub(super) fn extension(value: &Value) -> Answer<Extension> {
    match parts(value)? {
        [Value::Int(1)] => Ok(Extension::Extended),
        [Value::Int(0)] => Ok(Extension::Missing),
        [Value::Int(-1)] => Ok(Extension::Taken),
        _ => Err(unexpected(value)),
    }
}

/// The answer to `release`: whether all keys were ours.
pub(super) fn released(value: &Value) -> Answer<bool> {
    match parts(value)? {
        [Value::Int(1)] => Ok(true),
        [Value::Int(0)] => Ok(false),
        _ => Err(unexpected(value)),
    }
}

/// The answer to `force`: whether there was something to delete.
pub(super) fn count(value: &Value) -> Answer<bool> {
    match parts(value)? {
        [Value::Int(deleted @ 0..)] => Ok(*deleted > 0),
        _ => Err(unexpected(value)),
    }
}

/// The answer to `inspect`.
pub(super) fn holder(value: &Value) -> Answer<Option<Holder>> {
    match parts(value)? {
        [Value::Nil, Value::Int(_)] => Ok(None),
        [Value::BulkString(token), Value::Int(left)] => Ok(Some(Holder {
            token: String::from_utf8_lossy(token).into_owned(),
            remaining: remaining(*left),
        })),
        _ => Err(unexpected(value)),
    }
}

/// What a script answered, without the echo.
/// That was looked at before: an answer with another one is never read.
fn parts(value: &Value) -> Answer<&[Value]> {
    match value {
        Value::Array(parts) => Ok(parts.split_last().map_or(&[], |(_, parts)| parts)),
        other => Err(unexpected(other)),
    }
}

/// -1 is a key without an end; -2, a key that ended between two reads, is free now.
fn remaining(pttl: i64) -> Option<Duration> {
    match pttl {
        -1 => None,
        left => Some(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
    }
}

/// Whether a replica says that it does not write.
pub(super) fn is_replicas(value: &Value) -> bool {
    matches!(value, Value::ServerError(_)) && error_code(&words(value)) == "READONLY"
}

/// An error's own name, also where a script was around it.
fn error_code(text: &str) -> &str {
    // Before Redis 7 what a command in a script says comes behind where the script was.
    let inner =
        text.strip_prefix("ERR Error running script").and_then(|said| said.rsplit_once(": "));
    let code = inner.map_or(text, |(_, said)| said).split_whitespace().next().unwrap_or_default();
    code.trim_start_matches('-')
}

/// What the scripts' own error means.
const FENCE_HINT: &str = " (no client can have stored the fencing token that it keeps there: docs/fencing.md, \"Repair\")";

/// The server's own error, explained where its text alone would puzzle.
pub(super) fn refusal(text: &str) -> Fault {
    let code = error_code(text);
    let hint = match code {
        _ if text.contains("can't run this command") || text.contains("ACL failure") => {
            " (its user lacks a right in scripts: GET, SET, DEL, PTTL, PEXPIRE; for fencing and releases by force TIME)"
        }
        "WRONGTYPE" if camel_case() => {
            " (the key holds data of another type, it is no lock: choose another name or keyPrefix)"
        }
        "WRONGTYPE" => {
            " (the key holds data of another type, it is no lock: choose another name or key_prefix)"
        }
        "NOPERM" => {
            " (locks need EVALSHA, SCRIPT LOAD, GET, SET, PTTL, PEXPIRE and DEL on their keys, or other rights with scripts off: docs/security.md)"
        }
        "CLUSTERDOWN" => " (nobody has the key's hash slot now: docs/cluster.md)",
        "NOAUTH" => " (put the password into the node's URL)",
        "READONLY" => " (the server is a replica)",
        "MOVED" | "ASK" | "CROSSSLOT" => {
            " (this is a Redis Cluster: use redis+cluster://host:port)"
        }
        "FENCE" => FENCE_HINT,
        _ => "",
    };
    let answered = "the server answered ";
    // No retry mends these.
    let wrong = matches!(code, "WRONGTYPE" | "MOVED" | "ASK" | "CROSSSLOT");
    let fault = if wrong { Fault::invalid(answered) } else { Fault::new(answered) };
    fault.saying(text, hint)
}

/// A reply that is none of ours.
///
/// Never a refusal: somebody who cannot say whether the lock is held must not be counted as if it were.
pub(super) fn unexpected(value: &Value) -> Fault {
    match value {
        Value::ServerError(_) => refusal(&words(value)),
        other => {
            let before = "the server gave no answer that a lock can have: ";
            Fault::new(before).saying(&words(other), "")
        }
    }
}

/// What a server said, as text: bytes are not written as numbers, in which nobody would find a password.
pub(super) fn words(value: &Value) -> String {
    let all = |values: &[Value]| values.iter().map(words).collect::<Vec<_>>().join(" ");
    match value {
        Value::Nil => "nothing".to_owned(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Array(values) | Value::Set(values) => format!("({})", all(values)),
        Value::Push { data, .. } => format!("({})", all(data)),
        Value::Map(pairs) => {
            let pair = |(key, value): &(Value, Value)| format!("{} {}", words(key), words(value));
            format!("({})", pairs.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
        Value::Attribute { data, .. } => words(data),
        Value::ServerError(error) => {
            format!("{} {}", error.code(), error.details().unwrap_or_default())
        }
        Value::Double(number) => number.to_string(),
        Value::Boolean(yes) => yes.to_string(),
        _ => "a value of another kind".to_owned(),
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replies.rs"]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_options_is_told_by_the_errors_code() {
        for (text, invalid) in [
            ("WRONGTYPE Operation against a key holding the wrong kind of value", true),
            ("ERR Error running script (call to f_0): @user_script:12: WRONGTYPE Operation", true),
            ("NOPERM this user may not touch the key 'WRONGTYPE'", false),
            ("ERR unknown command 'WRONGTYPE'", false),
            ("LOADING of: WRONGTYPE", false),
            ("MOVED 3999 127.0.0.1:6381", true),
            ("ASK 3999 127.0.0.1:6381", true),
            ("CROSSSLOT Keys in request don't hash to the same slot", true),
        ] {
            assert_eq!(refusal(text).is_invalid(), invalid, "{text}");
        }
    }
}
