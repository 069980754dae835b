//! Parses replies into results. Only exact replies count: all others are errors, and never "held by another".
//!
//! The scripts define the forms (`acquire.lua` and the others). `tests/vectors/replies.toml` contains unusual ones.

use std::time::Duration;

use redis::Value;

use super::errors::{refusal, words};
use crate::node::{Blocker, Extension, Fault, Holder, Label, MAX_KEYS, Places, Refused, Vote};

/// A parsed reply, or an error.
pub(crate) type Answer<T> = Result<T, Fault>;

/// Whether the reply ends with the echo of this command. A server error has no echo and never counts as success.
pub(crate) fn echoes(value: &Value, asked: &str) -> bool {
    match value {
        Value::Array(parts) => {
            matches!(parts.last(), Some(Value::BulkString(echo)) if echo == asked.as_bytes())
        }
        Value::ServerError(_) => true,
        _ => false,
    }
}

/// Whether the value can be the reply to `extend` or `release`. The common one is the token alone.
pub(crate) fn says_ours(value: &Value, token: &str) -> bool {
    matches!(value, Value::BulkString(whose) if whose == token.as_bytes()) || echoes(value, token)
}

/// Whether the value can be the reply to `SET NX`.
pub(crate) fn sets(value: &Value) -> bool {
    matches!(value, Value::Okay | Value::Nil | Value::ServerError(_))
}

/// Whether the value can be the reply to `GET`.
pub(crate) fn owns(value: &Value) -> bool {
    matches!(value, Value::BulkString(_) | Value::Nil | Value::ServerError(_))
}

/// Parses the reply to `acquire`.
pub(crate) fn vote(value: &Value) -> Answer<Vote> {
    if let Value::BulkString(_) = value {
        return Ok(Vote::Granted(None));
    }
    match parts(value)? {
        [Value::Int(1), Value::Int(_), Value::BulkString(fence)] => {
            fence_token(fence).map(Vote::Granted).ok_or_else(|| unexpected(value))
        }
        [Value::Int(0), Value::Int(left), Value::BulkString(which), holder @ ..] => {
            let refused = || {
                let holder = match holder {
                    [] => None,
                    [Value::BulkString(label)] => Some(read_label(label)?),
                    _ => return None,
                };
                let (by, which) = blocker(which);
                Some(Box::new(Refused {
                    left: remaining(*left),
                    taken: places(which)?,
                    by,
                    holder,
                }))
            };
            refused().map(Vote::Held).ok_or_else(|| unexpected(value))
        }
        _ => Err(unexpected(value)),
    }
}

/// Parses the letter after the list of held keys.
fn blocker(which: &[u8]) -> (Blocker, &[u8]) {
    let by = match which.last() {
        Some(b'k') => Blocker::Kept,
        Some(b's') => Blocker::Readers,
        Some(b't') => Blocker::Turn,
        _ => return (Blocker::Owner, which),
    };
    (by, &which[..which.len() - 1])
}

/// Parses a label. The script has checked it already.
fn read_label(label: &[u8]) -> Option<Label> {
    Label::parse(std::str::from_utf8(label).ok()?)
}

/// Parses the list of held keys, which are counted from 1 as in Lua, each followed by a comma.
///
/// The list is a single text, so that the reply has the same form for any number of keys.
fn places(list: &[u8]) -> Option<Places> {
    let list = std::str::from_utf8(list).ok()?;
    // No claim has more keys, so a larger number is not the reply of a script.
    let place =
        |place: &str| place.parse().ok().filter(|at| (1..=MAX_KEYS).contains(at)).map(|at| at - 1);
    list.split_terminator(',').map(place).collect()
}

/// Parses a fencing token. It has digits only and is empty without fencing. It is sent as text, because Lua numbers
/// above 10^14 lose digits when converted.
fn fence_token(digits: &[u8]) -> Option<Option<u64>> {
    match std::str::from_utf8(digits).ok()? {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

/// Parses the reply to a write without effect.
pub(crate) fn written(value: &Value) -> Answer<()> {
    match value {
        Value::Nil => Ok(()),
        _ => Err(unexpected(value)),
    }
}

/// Parses the reply to `extend`.
pub(crate) fn extension(value: &Value) -> Answer<Extension> {
    if let Value::BulkString(_) = value {
        return Ok(Extension::Extended);
    }
    match parts(value)? {
        [Value::Int(0)] => Ok(Extension::Missing),
        [Value::Int(-1)] => Ok(Extension::Taken),
        _ => Err(unexpected(value)),
    }
}

/// Parses the reply to `release`: whether all keys were ours.
pub(crate) fn released(value: &Value) -> Answer<bool> {
    if let Value::BulkString(_) = value {
        return Ok(true);
    }
    match parts(value)? {
        [Value::Int(0)] => Ok(false),
        _ => Err(unexpected(value)),
    }
}

/// Parses the reply to `inspect`.
pub(crate) fn holder(value: &Value) -> Answer<Option<Holder>> {
    match parts(value)? {
        [Value::Nil, Value::Int(_)] => Ok(None),
        [Value::BulkString(token), Value::Int(left)] => Ok(Some(Holder {
            token: String::from_utf8_lossy(token).into_owned(),
            remaining: remaining(*left),
        })),
        _ => Err(unexpected(value)),
    }
}

/// Parses the reply to `keys`: the cursor of the next page, and the keys of this one. Keys of other programs may be any
/// bytes. Those of locks are text.
pub(crate) fn page(value: &Value) -> Answer<(Vec<u8>, Vec<String>)> {
    let [Value::BulkString(cursor), Value::Array(keys)] = parts(value)? else {
        return Err(unexpected(value));
    };
    let text = |key: &Value| match key {
        Value::BulkString(key) => String::from_utf8(key.clone()).ok(),
        _ => None,
    };
    Ok((cursor.clone(), keys.iter().filter_map(text).collect()))
}

/// Returns the reply of a script without the echo, which was checked before.
fn parts(value: &Value) -> Answer<&[Value]> {
    match value {
        Value::Array(parts) => Ok(parts.split_last().map_or(&[], |(_, parts)| parts)),
        other => Err(unexpected(other)),
    }
}

/// Parses a TTL. -1 is a key without an end. -2 is a key that expired between two reads and is free now.
fn remaining(pttl: i64) -> Option<Duration> {
    match pttl {
        -1 => None,
        left => Some(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
    }
}

/// The error for an unexpected reply.
///
/// It is never a refusal: a server that cannot tell whether the lock is held must not count as if it were.
pub(crate) fn unexpected(value: &Value) -> Fault {
    match value {
        Value::ServerError(_) => refusal(&words(value)),
        other => {
            let before = "the server sent an unexpected reply: ";
            Fault::new(before).saying(&words(other), "")
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_confirms_ownership() {
        let text = |text: &str| Value::BulkString(text.into());
        let refused = Value::Array(vec![Value::Int(0), text("ours")]);
        assert!(says_ours(&text("ours"), "ours") && released(&text("ours")) == Ok(true));
        assert!(says_ours(&refused, "ours") && released(&refused) == Ok(false));
        assert_eq!(extension(&text("ours")), Ok(Extension::Extended));
        assert_eq!(extension(&refused), Ok(Extension::Missing));
        let others = [text("theirs"), text(""), Value::Nil, Value::Okay, Value::Int(1)];
        for other in others.into_iter().chain([Value::Array(vec![Value::Int(1), text("theirs")])]) {
            assert!(!says_ours(&other, "ours"), "{other:?}");
        }
    }
}
