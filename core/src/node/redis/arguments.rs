//! Parses encoded commands back into their arguments, where that is rarely needed.

/// The arguments of one or more commands.
pub(super) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// Iterates over the arguments of these commands.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
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
