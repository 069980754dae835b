//! Parses RESP replies from bytes.
//!
//! The common replies are of few kinds and short. If they have arrived completely, they are parsed here. All other
//! replies go to the slower parser of the `redis` crate, which accepts any bytes and incomplete replies. A text is
//! always a bulk string, however the server sent it.

use bytes::{Buf, BytesMut};
use redis::{RedisError, Value, ValueCodec};
use tokio_util::codec::Decoder;

/// The bytes of a connection that are not parsed yet.
#[derive(Default)]
pub(crate) struct Parser {
    /// Read, and not parsed yet.
    pub(crate) unread: BytesMut,
    /// Keeps the beginning of an incomplete reply.
    codec: ValueCodec,
    /// Whether the codec holds the beginning of a reply.
    begun: bool,
    /// The number of bytes read since the last complete reply.
    partial: usize,
}

impl Parser {
    /// Counts bytes that were read into `unread`.
    pub(crate) fn count_read(&mut self, bytes: usize) {
        self.partial += bytes;
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        self.partial += bytes.len();
    }

    /// Returns the number of bytes of an incomplete reply, including those that the codec has taken.
    pub(crate) fn partial(&self) -> usize {
        self.partial
    }

    pub(crate) fn next(&mut self) -> Result<Option<Value>, RedisError> {
        let reply = if self.begun { None } else { self.next_short() };
        let reply = match reply {
            Some(reply) => Some(reply),
            None if !self.begun && self.unread.is_empty() => return Ok(None),
            None => {
                let mut reply = self.codec.decode(&mut self.unread)?;
                self.begun = reply.is_none();
                reply.iter_mut().for_each(unify_texts);
                reply
            }
        };
        if reply.is_some() {
            self.partial = self.unread.len();
        }
        Ok(reply)
    }

    /// Returns the next reply if it is short and complete. Otherwise it consumes nothing.
    fn next_short(&mut self) -> Option<Value> {
        let mut rest = &self.unread[..];
        let reply = short_reply(&mut rest, true)?;
        let length = self.unread.len() - rest.len();
        self.unread.advance(length);
        Some(reply)
    }
}

/// Converts simple strings to bulk strings. Some servers, such as fakeredis over TCP, send one for the other, and no
/// command depends on the difference. `OK` stays a separate value.
fn unify_texts(value: &mut Value) {
    match value {
        Value::SimpleString(text) => *value = Value::BulkString(std::mem::take(text).into_bytes()),
        Value::Array(parts) | Value::Set(parts) | Value::Push { data: parts, .. } => {
            parts.iter_mut().for_each(unify_texts);
        }
        Value::Map(pairs) => pairs.iter_mut().for_each(|(name, value)| {
            unify_texts(name);
            unify_texts(value);
        }),
        _ => {}
    }
}

/// Parses a short, complete reply. `rest` is left at the following bytes.
fn short_reply(rest: &mut &[u8], may_be_list: bool) -> Option<Value> {
    let kind = *rest.first()?;
    *rest = &rest[1..];
    match kind {
        b'+' => (line(rest)? == b"OK").then_some(Value::Okay),
        b':' => number(rest).map(Value::Int),
        b'_' => line(rest)?.is_empty().then_some(Value::Nil),
        b'$' => match number(rest)? {
            -1 => Some(Value::Nil),
            length => text(rest, usize::try_from(length).ok()?).map(Value::BulkString),
        },
        b'*' if may_be_list => {
            let parts = number(rest).filter(|parts| (0..=MAX_LIST).contains(parts))?;
            let mut list = Vec::with_capacity(usize::try_from(parts).ok()?);
            for _ in 0..parts {
                list.push(short_reply(rest, false)?);
            }
            Some(Value::Array(list))
        }
        _ => None,
    }
}

/// The maximum length of a list that is parsed here.
const MAX_LIST: i64 = 100;

/// Parses bytes of this length and their terminator. They are copied, so that a kept value does not keep the read
/// buffer.
fn text(rest: &mut &[u8], length: usize) -> Option<Vec<u8>> {
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind.strip_prefix(b"\r\n")?;
    Some(text.to_vec())
}

/// Returns a short line without its terminator. `None` if it is longer than a number or a status.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().take(24).position(|byte| *byte == b'\r')?;
    let line = &rest[..end];
    *rest = rest[end..].strip_prefix(b"\r\n")?;
    Some(line)
}

/// Parses digits only, and few enough to exclude an overflow.
fn number(rest: &mut &[u8]) -> Option<i64> {
    let line = line(rest)?;
    let (negative, digits) = match line.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, line),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds the pieces one after the other, and returns the replies after each.
    fn feed(
        pieces: &[&[u8]],
        mut next: impl FnMut(&[u8]) -> Vec<Result<Value, ()>>,
    ) -> Vec<String> {
        pieces.iter().map(|piece| format!("{:?}", next(piece))).collect()
    }

    fn unified(mut value: Value) -> Value {
        unify_texts(&mut value);
        assert!(!format!("{value:?}").contains("simple-string"), "{value:?}");
        value
    }

    fn replies(
        mut next: impl FnMut() -> Result<Option<Value>, RedisError>,
    ) -> Vec<Result<Value, ()>> {
        std::iter::from_fn(|| next().map_err(|_| ()).transpose()).take(50).collect()
    }

    fn values() -> impl Strategy<Value = String> {
        let numbers = prop_oneof![any::<i64>().prop_map(|n| n.to_string()), "[-+]?[0-9 ]{0,22}"];
        let text = "[a-z\\r\\n]{0,40}".prop_map(|text| format!("${}\r\n{text}\r\n", text.len()));
        let leaf = prop_oneof![
            4 => text,
            3 => numbers.prop_map(|number| format!(":{number}\r\n")),
            1 => Just("+OK\r\n".to_owned()),
            1 => "\\+[A-Za-z]{0,6}\r\n",
            1 => "-[A-Z]{3} [a-z ]{0,9}\r\n",
            1 => Just("$-1\r\n".to_owned()),
            1 => Just("_\r\n".to_owned()),
            1 => Just("#t\r\n".to_owned()),
        ];
        leaf.prop_recursive(2, 12, 9, |inner| {
            (prop::collection::vec(inner, 0..10), prop::sample::select(vec!['*', '>', '~']))
                .prop_map(|(parts, kind)| format!("{kind}{}\r\n{}", parts.len(), parts.concat()))
        })
    }

    proptest! {
        #[test]
        fn reads_the_same_as_the_redis_crate(
            stream in prop::collection::vec(values(), 1..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            odd in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut bytes = stream.concat().into_bytes();
            if let Some((at, byte)) = odd {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let mut ours = Parser::default();
            let ours = feed(&pieces, |piece| {
                ours.unread.extend_from_slice(piece);
                replies(|| ours.next())
            });
            let (mut codec, mut unread) = (ValueCodec::default(), BytesMut::new());
            let theirs = feed(&pieces, |piece| {
                unread.extend_from_slice(piece);
                replies(|| codec.decode(&mut unread).map(|reply| reply.map(unified)))
            });
            prop_assert_eq!(ours, theirs);
        }
    }
}
