//! Requests as they go over the wire: each word is written once, into a buffer that has room for all.
//!
//! The redis crate's commands collect their words first, and write them then: for a release by script that is a tenth of
//! all that a lock costs its client.

/// Requests, one behind the other.
pub(super) struct Packed(Vec<u8>);

/// What stands around a word on the wire, and the digits of what is no long one.
const AROUND: usize = 24;

impl Packed {
    /// Nothing yet, with room for so many words whose own bytes are so many together.
    pub(super) fn with_room(words: usize, bytes: usize) -> Self {
        Self(Vec::with_capacity(words * AROUND + bytes))
    }

    /// The beginning of a command that has so many words with this one.
    pub(super) fn of(words: usize, first: &str) -> Self {
        let mut packed = Self::with_room(2, first.len());
        packed.request(words).word(first);
        packed
    }

    /// Begins a request: so many words follow.
    pub(super) fn request(&mut self, words: usize) -> &mut Self {
        self.header(b'*', words as u64)
    }

    /// The next words, as they are on the wire.
    pub(super) fn packed(&mut self, words: &[u8]) -> &mut Self {
        self.0.extend_from_slice(words);
        self
    }

    /// The next word.
    pub(super) fn word(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        let word = word.as_ref();
        self.header(b'$', word.len() as u64);
        self.0.extend_from_slice(word);
        self.0.extend_from_slice(b"\r\n");
        self
    }

    /// The next word, which is a number.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        let (digits, from) = decimal(number);
        self.word(&digits[from..])
    }

    /// All words.
    pub(super) fn words(&mut self, words: &[String]) -> &mut Self {
        for word in words {
            self.word(word);
        }
        self
    }

    /// As they are sent.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.0
    }

    fn header(&mut self, kind: u8, number: u64) -> &mut Self {
        // Nearly every length has one digit or two.
        match number {
            0..10 => self.0.extend_from_slice(&[kind, digit(number), b'\r', b'\n']),
            10..100 => {
                let digits = [kind, digit(number / 10), digit(number), b'\r', b'\n'];
                self.0.extend_from_slice(&digits);
            }
            _ => {
                let (digits, from) = decimal(number);
                self.0.push(kind);
                self.0.extend_from_slice(&digits[from..]);
                self.0.extend_from_slice(b"\r\n");
            }
        }
        self
    }
}

/// The last one.
fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

/// The digits of a number, which stand at the end, from there on.
fn decimal(mut number: u64) -> ([u8; 20], usize) {
    let (mut digits, mut from) = ([b'0'; 20], 20);
    loop {
        from -= 1;
        digits[from] = digit(number);
        number /= 10;
        if number == 0 {
            return (digits, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Packed;

    proptest! {
        #[test]
        fn requests_are_as_the_redis_crate_writes_them(
            words in prop::collection::vec(".{0,40}", 1..6), number: u64, small in 0..1000_u64,
        ) {
            let mut theirs = redis::Cmd::new();
            theirs.arg(&words).arg(number).arg(small);
            let mut ours = Packed::with_room(0, 0);
            ours.request(words.len() + 2).words(&words).number(number).number(small);
            prop_assert_eq!(&ours.bytes()[..], &theirs.get_packed_command()[..]);
        }
    }
}
