//! An answer that comes in parts, as of commands that go out together: what each part may be, and the one answer that
//! they make.
//!
//! Pure. The one answer has the shape of a script's, so that nobody further up knows which way was taken. `PING` with
//! the question's name goes behind each, or into its transaction: a bare 0 or 1 would be an answer to anything.

use redis::Value;

use crate::node::KEPT;

/// What is asked without a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// To delete what is ours.
    Delete,
    /// To shorten what is ours.
    Shorten,
    /// Whose the key is, before it is lengthened.
    Owner,
    /// Whose the key is, before it is deleted whoever has it.
    Seen,
    /// To make it ours for so many ms: the `SET NX`, the owner, and how long it has it.
    Acquire(u64),
    /// To lengthen it: one command or two, and the owner then.
    Extend,
    /// Who has it, and for how long.
    Inspect,
}

/// A question whose answer comes in parts.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// What is asked, which says what each part may be.
    asked: Asked,
    /// What names the question: the token, or the key.
    echo: Box<str>,
    /// How many commands a transaction has, with the one that names it; 0: there is none.
    queued: usize,
}

impl Parts {
    /// One command, and what names it.
    pub(super) fn pair(asked: Asked, echo: &str) -> Self {
        Self { asked, echo: echo.into(), queued: 0 }
    }

    /// So many commands that are carried out together.
    pub(super) fn transaction(asked: Asked, echo: &str, commands: usize) -> Self {
        Self { asked, echo: echo.into(), queued: commands + 1 }
    }

    /// Whether it is a delete, which servers want asked in different ways.
    pub(super) fn is_delete(&self) -> bool {
        self.asked == Asked::Delete
    }

    /// What names the question.
    pub(super) fn echo(&self) -> &str {
        &self.echo
    }

    /// How many parts there are.
    pub(super) fn count(&self) -> usize {
        // MULTI and EXEC are answered, too.
        2 + self.queued
    }

    /// Whether it can be the part at this place. A server's error can stand at each, and never counts.
    pub(super) fn fits(&self, at: usize, part: &Value) -> bool {
        if matches!(part, Value::ServerError(_)) {
            return true;
        }
        match (self.queued, at) {
            (0, 0) if self.asked == Asked::Delete => matches!(part, Value::Int(0 | 1)),
            (0, 0) if self.asked == Asked::Shorten => matches!(part, Value::Okay | Value::Nil),
            (0, 0) => matches!(part, Value::BulkString(_) | Value::Nil),
            (0, _) => self.names(part),
            (_, 0) => *part == Value::Okay,
            (queued, at) if at <= queued => {
                matches!(part, Value::SimpleString(word) if word == "QUEUED")
            }
            (queued, _) => {
                matches!(part, Value::Array(all) if all.len() == queued && all.last().is_some_and(|last| self.names(last)))
            }
        }
    }

    /// Whether this part names the question. An error may stand in its place, and counts as none.
    fn names(&self, part: &Value) -> bool {
        matches!(part, Value::BulkString(echo) if *echo == self.echo.as_bytes())
            || matches!(part, Value::ServerError(_))
    }

    /// All parts as one answer. Of errors it is the first: what comes behind follows from it.
    pub(super) fn whole(&self, mut parts: Vec<Value>) -> Value {
        if let Some(at) = self.error_at(&parts) {
            return parts.swap_remove(at);
        }
        let mut answers = match parts.pop() {
            Some(Value::Array(answers)) if self.queued > 0 => answers,
            name => parts.into_iter().chain(name).collect(),
        };
        if let Some(at) = self.error_at(&answers) {
            return answers.swap_remove(at);
        }
        let said = self.read(&answers[..answers.len().saturating_sub(1)]);
        // What cannot be read stays as it came, which is no answer that a lock can have.
        let Some(mut said) = said else { return Value::Array(answers) };
        said.push(Value::BulkString(self.echo.as_bytes().to_vec()));
        Value::Array(said)
    }

    /// The place of the first error that is the whole answer. A command that changes only our own key finds a key of another
    /// type to be another client's.
    fn error_at(&self, parts: &[Value]) -> Option<usize> {
        let is_error = |part: &Value| matches!(part, Value::ServerError(_));
        let named = parts.last().is_some_and(|last| !is_error(last));
        let ours_alone =
            matches!(self.asked, Asked::Delete | Asked::Shorten | Asked::Owner | Asked::Extend);
        let is_other_type =
            |part: &Value| matches!(part, Value::ServerError(error) if error.code() == "WRONGTYPE");
        parts
            .iter()
            .position(|part| is_error(part) && !(named && ours_alone && is_other_type(part)))
    }

    /// What a script would have said; `None`: it is none of these answers.
    fn read(&self, answers: &[Value]) -> Option<Vec<Value>> {
        Some(match (self.asked, answers) {
            (Asked::Delete, [Value::Int(deleted)]) => vec![Value::Int(*deleted)],
            (Asked::Delete, [Value::ServerError(_)]) => vec![Value::Int(0)],
            (Asked::Shorten, [set]) => vec![Value::Int((*set == Value::Okay).into())],
            (Asked::Seen, [owner]) => vec![owner.clone()],
            (Asked::Owner, [owner])
            | (
                Asked::Extend,
                [Value::Int(_), owner]
                | [Value::Okay | Value::Nil | Value::ServerError(_), Value::Int(_), owner],
            ) => vec![Value::Int(self.owns(owner)?)],
            (Asked::Acquire(ttl), [set, owner, Value::Int(left)]) => {
                let (ours, nothing) = (self.owns(owner)? == 1, Value::BulkString(Vec::new()));
                match (set, ours) {
                    (Value::Okay, true) => {
                        vec![Value::Int(1), Value::Int(i64::try_from(ttl).ok()?), nothing]
                    }
                    (Value::Nil, true) => vec![Value::Int(OURS), Value::Int(*left), nothing],
                    // The first key, which is the only one.
                    (Value::Nil, false) => {
                        let which: &[u8] = if is_kept(owner) { b"1,k" } else { b"1," };
                        let which = Value::BulkString(which.to_vec());
                        vec![Value::Int(0), Value::Int(*left), which]
                    }
                    _ => return None,
                }
            }
            // An empty value is one; only the time tells that there is none.
            (Asked::Inspect, [_, Value::Int(-2)]) => vec![Value::Nil, Value::Int(-2)],
            (Asked::Inspect, [owner @ Value::BulkString(_), left @ Value::Int(_)]) => {
                vec![owner.clone(), left.clone()]
            }
            _ => return None,
        })
    }

    /// 1: it is ours; 0: it is nobody's; -1: it is another one's.
    fn owns(&self, owner: &Value) -> Option<i64> {
        match owner {
            Value::BulkString(token) if *token == self.echo.as_bytes() => Some(1),
            // RESP2 says so of a key that is not there. Nobody has an empty token.
            Value::BulkString(token) if token.is_empty() => Some(0),
            Value::Nil => Some(0),
            other if is_kept(other) => Some(0),
            // An error here is about a key of another type.
            Value::BulkString(_) | Value::ServerError(_) => Some(-1),
            _ => None,
        }
    }
}

/// Whether it was released, and stays.
fn is_kept(owner: &Value) -> bool {
    matches!(owner, Value::BulkString(owner) if owner.starts_with(KEPT.as_bytes()))
}

/// Instead of a grant: the key was ours already, for a time that may be too short.
pub(super) const OURS: i64 = 2;

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

    /// What the parts make, unless one is none of this question's.
    fn whole(parts: &Parts, text: &str) -> Option<Value> {
        let values = values(text);
        let fit = values.iter().enumerate().all(|(at, part)| parts.fits(at, part));
        (fit && values.len() == parts.count()).then(|| parts.whole(values))
    }

    #[test]
    fn only_an_answer_that_names_its_question_is_one() {
        let delete = Parts::pair(Asked::Delete, "ours");
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
        let extend = Parts::transaction(Asked::Extend, "ours", 2);
        let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n";
        let said = |array: &str| whole(&extend, &format!("{queued}{array}"));
        assert_eq!(
            said("*3\r\n:1\r\n$4\r\nours\r\n$4\r\nours\r\n"),
            values("*2\r\n:1\r\n$4\r\nours\r\n").pop()
        );
        assert_eq!(said("*3\r\n:1\r\n$4\r\nours\r\n$6\r\ntheirs\r\n"), None);
        assert_eq!(said("*2\r\n:1\r\n$4\r\nours\r\n"), None);
        assert_eq!(whole(&extend, "+QUEUED\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*0\r\n"), None);
    }

    #[test]
    fn an_error_anywhere_is_the_whole_answer_and_the_first_is_told() {
        let code = |value: Option<Value>| match value {
            Some(Value::ServerError(error)) => error.code().to_owned(),
            other => panic!("{other:?}"),
        };
        let delete = Parts::pair(Asked::Delete, "ours");
        assert_eq!(code(whole(&delete, "-MOVED 1 a:1\r\n$4\r\nours\r\n")), "MOVED");
        assert_eq!(code(whole(&delete, ":1\r\n-NOPERM no\r\n")), "NOPERM");
        let extend = Parts::transaction(Asked::Extend, "ours", 2);
        let aborted = "+OK\r\n-ASK 1 a:1\r\n-ASK 1 a:1\r\n+QUEUED\r\n-EXECABORT no\r\n";
        assert_eq!(code(whole(&extend, aborted)), "ASK");
        let inside =
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:0\r\n-NOPERM no\r\n$4\r\nours\r\n";
        assert_eq!(code(whole(&extend, inside)), "NOPERM");
    }

    #[test]
    fn a_key_of_another_type_is_another_clients_to_what_changes_our_own() {
        let wrong = "-WRONGTYPE no\r\n$4\r\nours\r\n";
        let says = |number: i64| values(&format!("*2\r\n:{number}\r\n$4\r\nours\r\n")).pop();
        for (asked, number) in [(Asked::Delete, 0), (Asked::Shorten, 0), (Asked::Owner, -1)] {
            assert_eq!(whole(&Parts::pair(asked, "ours"), wrong), says(number), "{asked:?}");
        }
        for (count, wrong) in [
            (2, "*3\r\n:0\r\n-WRONGTYPE no\r\n"),
            (3, "*4\r\n-WRONGTYPE no\r\n:0\r\n-WRONGTYPE no\r\n"),
        ] {
            let extend = Parts::transaction(Asked::Extend, "ours", count);
            let queued = "+QUEUED\r\n".repeat(count + 1);
            let said = whole(&extend, &format!("+OK\r\n{queued}{wrong}$4\r\nours\r\n"));
            assert_eq!(said, says(-1));
        }
        // Of a question whose answer is not named nothing counts.
        let unnamed = whole(&Parts::pair(Asked::Delete, "ours"), "-WRONGTYPE no\r\n-NOPERM no\r\n");
        assert!(matches!(unnamed, Some(Value::ServerError(_))));
        let seen = whole(&Parts::pair(Asked::Seen, "ours"), wrong);
        assert!(matches!(seen, Some(Value::ServerError(_))));
    }
}
