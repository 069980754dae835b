//! The protocol of a server: requests that arrive as bytes, and replies in RESP2 or RESP3.

/// A reply, or a push.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Status(&'static str),
    Error(String),
    Int(i64),
    Bulk(String),
    Nil,
    List(Vec<Self>),
    Map(Vec<(&'static str, Self)>),
    Push(Vec<Self>),
}

impl Reply {
    pub(super) fn bulk(text: impl Into<String>) -> Self {
        Self::Bulk(text.into())
    }

    pub(super) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// A text, or nil.
    pub(super) fn text(text: Option<String>) -> Self {
        text.map_or(Self::Nil, Self::Bulk)
    }

    /// Appends the reply as a server sends it.
    pub(super) fn encode(&self, resp3: bool, out: &mut Vec<u8>) {
        let mut line = |text: String| out.extend_from_slice(format!("{text}\r\n").as_bytes());
        let (kind, parts) = match self {
            Self::Status(text) => return line(format!("+{text}")),
            Self::Error(text) => return line(format!("-{text}")),
            Self::Int(number) => return line(format!(":{number}")),
            Self::Bulk(text) => return line(format!("${}\r\n{text}", text.len())),
            Self::Nil => return line((if resp3 { "_" } else { "$-1" }).to_owned()),
            Self::Map(fields) => {
                line(if resp3 {
                    format!("%{}", fields.len())
                } else {
                    format!("*{}", 2 * fields.len())
                });
                return fields.iter().for_each(|(name, value)| {
                    Self::bulk(*name).encode(resp3, out);
                    value.encode(resp3, out);
                });
            }
            Self::List(parts) => ('*', parts),
            Self::Push(parts) => (if resp3 { '>' } else { '*' }, parts),
        };
        line(format!("{kind}{}", parts.len()));
        parts.iter().for_each(|part| part.encode(resp3, out));
    }
}

/// Returns the words of the first complete request, and its length. Fails if the bytes are not a request.
pub(super) fn request(input: &[u8]) -> Result<Option<(Vec<&str>, usize)>, Garbled> {
    let mut at = 0;
    let Some(count) = number(input, &mut at, b'*')? else { return Ok(None) };
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(length) = number(input, &mut at, b'$')? else { return Ok(None) };
        let Some(word) = input.get(at..at + length) else { return Ok(None) };
        at += length + 2;
        words.push(std::str::from_utf8(word).map_err(|_| Garbled)?);
    }
    Ok((at <= input.len()).then_some((words, at)))
}

/// Bytes that are not a request.
pub(super) struct Garbled;

/// Reads a number between its mark and the end of the line.
fn number(input: &[u8], at: &mut usize, mark: u8) -> Result<Option<usize>, Garbled> {
    let rest = input.get(*at..).unwrap_or_default();
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = std::str::from_utf8(&rest[..end]).map_err(|_| Garbled)?;
    let digits = line.strip_prefix(char::from(mark)).and_then(|line| line.strip_suffix('\r'));
    *at += end + 1;
    digits.and_then(|digits| digits.parse().ok()).ok_or(Garbled).map(Some)
}
