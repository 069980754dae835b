//! Encodes requests directly into a buffer with sufficient capacity.
//!
//! The commands of the `redis` crate first collect their arguments and then encode them, which costs noticeably more.

pub(crate) struct RequestBuffer(Vec<u8>);

/// The overhead of an argument, which is also enough for the digits of a number.
const AROUND: usize = 24;

impl RequestBuffer {
    /// Creates a buffer for this number of arguments with this total length.
    pub(crate) fn with_room(words: usize, bytes: usize) -> Self {
        Self(Vec::with_capacity(words * AROUND + bytes))
    }

    pub(crate) fn request(&mut self, words: usize) -> &mut Self {
        self.header(b'*', words as u64)
    }

    /// Appends arguments that are already encoded.
    pub(crate) fn packed(&mut self, words: &[u8]) -> &mut Self {
        self.0.extend_from_slice(words);
        self
    }

    pub(crate) fn word(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        let word = word.as_ref();
        self.header(b'$', word.len() as u64);
        self.0.extend_from_slice(word);
        self.0.extend_from_slice(b"\r\n");
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.word(itoa::Buffer::new().format(number))
    }

    pub(crate) fn words(&mut self, words: &[String]) -> &mut Self {
        for word in words {
            self.word(word);
        }
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn header(&mut self, kind: u8, number: u64) -> &mut Self {
        self.0.push(kind);
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.0.extend_from_slice(b"\r\n");
        self
    }
}

/// Iterates over the arguments of one or more encoded commands, for the few places that need them.
pub(crate) fn arguments(mut left: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let end = left.windows(2).position(|two| two == b"\r\n")?;
            let (line, rest) = (&left[..end], &left[end + 2..]);
            left = rest;
            // Skips the number of arguments at the start of a command.
            let Some(length) = line.strip_prefix(b"$") else { continue };
            let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
            let word = rest.get(..length)?;
            left = rest.get(length + 2..).unwrap_or_default();
            return Some(word);
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RequestBuffer;

    proptest! {
        #[test]
        fn requests_equal_those_of_the_redis_crate(
            words in prop::collection::vec(".{0,40}", 1..6), number: u64, small in 0..1000_u64,
        ) {
            let mut theirs = redis::Cmd::new();
            theirs.arg(&words).arg(number).arg(small);
            let mut ours = RequestBuffer::with_room(0, 0);
            ours.request(words.len() + 2).words(&words).number(number).number(small);
            prop_assert_eq!(&ours.bytes()[..], &theirs.get_packed_command()[..]);
        }
    }
}
