//! The words of commands as they go over the wire, read back from their bytes where that is rarely wanted.

/// The words, one command's behind the other's.
pub(super) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// Those of these commands.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let end = self.0.windows(2).position(|two| two == b"\r\n")?;
            let (line, rest) = (&self.0[..end], &self.0[end + 2..]);
            self.0 = rest;
            // Before the first word of a command is how many there are.
            let Some(length) = line.strip_prefix(b"$") else { continue };
            let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
            let word = rest.get(..length)?;
            self.0 = rest.get(length + 2..).unwrap_or_default();
            return Some(word);
        }
    }
}
