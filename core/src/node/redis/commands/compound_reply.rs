//! Combines the replies to several commands of one request into one reply.
//!
//! With the option `scripts` off, and for some other operations, the client sends plain commands instead of one
//! script. The combined reply has the form of the script's reply, so callers do not need to know which was used. Each
//! command is followed by a `PING` with an echo, or contains it in its transaction. Otherwise a bare 0 or 1 could be
//! the reply to any command.
//!
//! The reply to a change begins with its result. For an acquire it is 1 (granted), 0 (refused) or [`OURS`]. For an
//! extend or a read of our key it is 1 (ours), 0 (free) or -1 (another owner's).

use redis::Value;

use crate::node::KEPT_PREFIX;

/// The operation without a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Deletes our key.
    Delete,
    /// Limits the TTL of our key.
    Shorten,
    /// Reads the owner (the token at the key) before an extend.
    Owner,
    /// Acquires the key for this number of milliseconds: `SET NX`, the owner, and the remaining TTL.
    Acquire(u64),
    /// Extends the key: one or two commands, followed by the owner.
    Extend,
    /// Reads the owner and the remaining TTL.
    Inspect,
}

/// A request with a compound reply.
#[derive(Clone, Debug)]
pub(crate) struct CompoundReply {
    /// The operation, which determines the form of each part.
    asked: Operation,
    /// The echo: the token or the key.
    echo: Box<str>,
    /// The number of commands in the transaction, including the echo. 0 without a transaction.
    queued: usize,
}

impl CompoundReply {
    /// Describes the reply to one command and its echo.
    pub(crate) fn pair(asked: Operation, echo: &str) -> Self {
        Self { asked, echo: echo.into(), queued: 0 }
    }

    /// Describes the reply to a transaction with this number of commands.
    pub(crate) fn transaction(asked: Operation, echo: &str, commands: usize) -> Self {
        Self { asked, echo: echo.into(), queued: commands + 1 }
    }

    /// Whether it is a delete, whose command depends on the server.
    pub(crate) fn is_delete(&self) -> bool {
        self.asked == Operation::Delete
    }

    pub(crate) fn echo(&self) -> &str {
        &self.echo
    }

    pub(crate) fn count(&self) -> usize {
        // One command and its echo, or the replies to `MULTI` and `EXEC`.
        2 + self.queued
    }

    /// Whether the value can be the part at this position. A server error fits everywhere and never counts as success.
    pub(crate) fn fits(&self, at: usize, part: &Value) -> bool {
        if matches!(part, Value::ServerError(_)) {
            return true;
        }
        match (self.queued, at) {
            (0, 0) if self.asked == Operation::Delete => matches!(part, Value::Int(0 | 1)),
            (0, 0) if self.asked == Operation::Shorten => matches!(part, Value::Okay | Value::Nil),
            (0, 0) => matches!(part, Value::BulkString(_) | Value::Nil),
            (0, _) => self.is_echo(part),
            (_, 0) => *part == Value::Okay,
            (queued, at) if at <= queued => {
                matches!(part, Value::BulkString(word) if word == b"QUEUED")
            }
            (queued, _) => {
                matches!(part, Value::Array(all) if all.len() == queued && all.last().is_some_and(|last| self.is_echo(last)))
            }
        }
    }

    /// Whether this part is the echo. An error may take its place.
    fn is_echo(&self, part: &Value) -> bool {
        matches!(part, Value::BulkString(echo) if *echo == self.echo.as_bytes())
            || matches!(part, Value::ServerError(_))
    }

    /// Combines all parts. Of several errors it returns the first, which causes the others.
    pub(crate) fn whole(&self, mut parts: Vec<Value>) -> Value {
        if let Some(at) = self.error_at(&parts) {
            return parts.swap_remove(at);
        }
        let mut replies = match parts.pop() {
            Some(Value::Array(replies)) if self.queued > 0 => replies,
            name => parts.into_iter().chain(name).collect(),
        };
        if let Some(at) = self.error_at(&replies) {
            return replies.swap_remove(at);
        }
        let combined = self.read(&replies[..replies.len().saturating_sub(1)]);
        // An unexpected reply is returned unchanged. The code that reads the reply of a lock's command rejects it.
        let Some(mut combined) = combined else { return Value::Array(replies) };
        combined.push(Value::BulkString(self.echo.as_bytes().to_vec()));
        Value::Array(combined)
    }

    /// Returns the position of the first error that becomes the whole reply. A key of another type is not an error for
    /// commands that only change our own key. It belongs to another client.
    fn error_at(&self, parts: &[Value]) -> Option<usize> {
        let is_error = |part: &Value| matches!(part, Value::ServerError(_));
        let named = parts.last().is_some_and(|last| !is_error(last));
        let ours_alone = matches!(
            self.asked,
            Operation::Delete | Operation::Shorten | Operation::Owner | Operation::Extend
        );
        let is_other_type =
            |part: &Value| matches!(part, Value::ServerError(error) if error.code() == "WRONGTYPE");
        parts
            .iter()
            .position(|part| is_error(part) && !(named && ours_alone && is_other_type(part)))
    }

    /// Returns the reply that the script would have sent, or `None` for an unexpected reply.
    fn read(&self, replies: &[Value]) -> Option<Vec<Value>> {
        Some(match (self.asked, replies) {
            (Operation::Delete, [Value::Int(deleted)]) => vec![Value::Int(*deleted)],
            (Operation::Delete, [Value::ServerError(_)]) => vec![Value::Int(0)],
            (Operation::Shorten, [set]) => vec![Value::Int((*set == Value::Okay).into())],
            (Operation::Owner, [owner])
            | (
                Operation::Extend,
                [Value::Int(_), owner]
                | [Value::Okay | Value::Nil | Value::ServerError(_), Value::Int(_), owner],
            ) => vec![Value::Int(self.owns(owner)?)],
            (Operation::Acquire(ttl), [set, owner, Value::Int(left)]) => {
                let (ours, nothing) = (self.owns(owner)? == 1, Value::BulkString(Vec::new()));
                match (set, ours) {
                    (Value::Okay, true) => {
                        vec![Value::Int(1), Value::Int(i64::try_from(ttl).ok()?), nothing]
                    }
                    (Value::Nil, true) => vec![Value::Int(OURS), Value::Int(*left), nothing],
                    // The position of the held key, counted from 1. `k` marks a key that `min_hold` keeps.
                    (Value::Nil, false) => {
                        let which: &[u8] = if is_kept(owner) { b"1,k" } else { b"1," };
                        let which = Value::BulkString(which.to_vec());
                        vec![Value::Int(0), Value::Int(*left), which]
                    }
                    _ => return None,
                }
            }
            // An empty value exists. Only the TTL shows that a key does not exist.
            (Operation::Inspect, [_, Value::Int(-2)]) => vec![Value::Nil, Value::Int(-2)],
            (Operation::Inspect, [owner @ Value::BulkString(_), left @ Value::Int(_)]) => {
                vec![owner.clone(), left.clone()]
            }
            _ => return None,
        })
    }

    /// Returns 1 for our key, 0 for a free one, and -1 for that of another owner.
    fn owns(&self, owner: &Value) -> Option<i64> {
        match owner {
            Value::BulkString(token) if *token == self.echo.as_bytes() => Some(1),
            // The reply for a missing key. No token is empty.
            Value::BulkString(token) if token.is_empty() => Some(0),
            Value::Nil => Some(0),
            other if is_kept(other) => Some(0),
            // An error here means a key of another type.
            Value::BulkString(_) | Value::ServerError(_) => Some(-1),
            _ => None,
        }
    }
}

/// Whether the key was released and remains for `min_hold`.
fn is_kept(owner: &Value) -> bool {
    matches!(owner, Value::BulkString(owner) if owner.starts_with(KEPT_PREFIX.as_bytes()))
}

/// Replaces a grant if the key was already ours. Its remaining TTL may be too short.
pub(crate) const OURS: i64 = 2;

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use redis::ValueCodec;
    use tokio_util::codec::Decoder;

    use super::*;

    fn values(text: &str) -> Vec<Value> {
        let (mut codec, mut rest) = (ValueCodec::default(), BytesMut::from(text));
        std::iter::from_fn(|| codec.decode(&mut rest).unwrap()).collect()
    }

    /// Combines the parts, unless one of them does not fit.
    fn whole(parts: &CompoundReply, text: &str) -> Option<Value> {
        let values = values(text);
        let fit = values.iter().enumerate().all(|(at, part)| parts.fits(at, part));
        (fit && values.len() == parts.count()).then(|| parts.whole(values))
    }

    #[test]
    fn accepts_only_replies_that_echo_the_token() {
        let delete = CompoundReply::pair(Operation::Delete, "ours");
        assert_eq!(
            whole(&delete, ":1\r\n$4\r\nours\r\n"),
            values("*2\r\n:1\r\n$4\r\nours\r\n").pop()
        );
        for shifted in [
            ":1\r\n$6\r\ntheirs\r\n",
            "$4\r\nours\r\n:1\r\n",
            ":1\r\n:1\r\n",
            ":2\r\n$4\r\nours\r\n",
        ] {
            assert_eq!(whole(&delete, shifted), None, "{shifted}");
        }
        let extend = CompoundReply::transaction(Operation::Extend, "ours", 2);
        let queued = "+OK\r\n$6\r\nQUEUED\r\n$6\r\nQUEUED\r\n$6\r\nQUEUED\r\n";
        let said = |array: &str| whole(&extend, &format!("{queued}{array}"));
        assert_eq!(
            said("*3\r\n:1\r\n$4\r\nours\r\n$4\r\nours\r\n"),
            values("*2\r\n:1\r\n$4\r\nours\r\n").pop()
        );
        assert_eq!(said("*3\r\n:1\r\n$4\r\nours\r\n$6\r\ntheirs\r\n"), None);
        assert_eq!(said("*2\r\n:1\r\n$4\r\nours\r\n"), None);
        assert_eq!(
            whole(&extend, "$6\r\nQUEUED\r\n+OK\r\n$6\r\nQUEUED\r\n$6\r\nQUEUED\r\n*0\r\n"),
            None
        );
    }

    #[test]
    fn first_error_is_the_whole_reply() {
        let code = |value: Option<Value>| match value {
            Some(Value::ServerError(error)) => error.code().to_owned(),
            other => panic!("{other:?}"),
        };
        let delete = CompoundReply::pair(Operation::Delete, "ours");
        assert_eq!(code(whole(&delete, "-MOVED 1 a:1\r\n$4\r\nours\r\n")), "MOVED");
        assert_eq!(code(whole(&delete, ":1\r\n-NOPERM no\r\n")), "NOPERM");
        let extend = CompoundReply::transaction(Operation::Extend, "ours", 2);
        let aborted = "+OK\r\n-ASK 1 a:1\r\n-ASK 1 a:1\r\n$6\r\nQUEUED\r\n-EXECABORT no\r\n";
        assert_eq!(code(whole(&extend, aborted)), "ASK");
        let inside = "+OK\r\n$6\r\nQUEUED\r\n$6\r\nQUEUED\r\n$6\r\nQUEUED\r\n*3\r\n:0\r\n-NOPERM no\r\n$4\r\nours\r\n";
        assert_eq!(code(whole(&extend, inside)), "NOPERM");
    }

    #[test]
    fn wrong_key_type_counts_as_another_owner() {
        let wrong = "-WRONGTYPE no\r\n$4\r\nours\r\n";
        let says = |number: i64| values(&format!("*2\r\n:{number}\r\n$4\r\nours\r\n")).pop();
        for (asked, number) in
            [(Operation::Delete, 0), (Operation::Shorten, 0), (Operation::Owner, -1)]
        {
            assert_eq!(
                whole(&CompoundReply::pair(asked, "ours"), wrong),
                says(number),
                "{asked:?}"
            );
        }
        for (count, wrong) in [
            (2, "*3\r\n:0\r\n-WRONGTYPE no\r\n"),
            (3, "*4\r\n-WRONGTYPE no\r\n:0\r\n-WRONGTYPE no\r\n"),
        ] {
            let extend = CompoundReply::transaction(Operation::Extend, "ours", count);
            let queued = "$6\r\nQUEUED\r\n".repeat(count + 1);
            let said = whole(&extend, &format!("+OK\r\n{queued}{wrong}$4\r\nours\r\n"));
            assert_eq!(said, says(-1));
        }
        // Without an echo the reply does not count.
        let unnamed = whole(
            &CompoundReply::pair(Operation::Delete, "ours"),
            "-WRONGTYPE no\r\n-NOPERM no\r\n",
        );
        assert!(matches!(unnamed, Some(Value::ServerError(_))));
    }
}
