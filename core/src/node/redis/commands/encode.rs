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

    /// Begins a command with this number of arguments, including the first one.
    pub(crate) fn of(words: usize, first: &str) -> Self {
        let mut packed = Self::with_room(2, first.len());
        packed.request(words).word(first);
        packed
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

/// The arguments of one or more encoded commands, for the few places that need them.
pub(crate) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// Iterates over the arguments of these commands.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let end = self.0.windows(2).position(|two| two == b"\r\n")?;
            let (line, rest) = (&self.0[..end], &self.0[end + 2..]);
            self.0 = rest;
            // Skips the number of arguments at the start of a command.
            let Some(length) = line.strip_prefix(b"$") else { continue };
            let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
            let word = rest.get(..length)?;
            self.0 = rest.get(length + 2..).unwrap_or_default();
            return Some(word);
        }
    }
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
