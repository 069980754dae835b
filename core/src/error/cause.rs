//! The source of an error: the first node that failed, and the error of the operating system.

use std::fmt;
use std::io;

/// The error of the operating system, as a number or a kind. It has no text, because a text could contain a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The error number of the operating system.
    Code(i32),
    /// The error kind of the standard library.
    Kind(io::ErrorKind),
}

impl Cause {
    /// `None` if only a text is known.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let kind = (error.kind() != io::ErrorKind::Other).then(|| Self::Kind(error.kind()));
        error.raw_os_error().map(Self::Code).or(kind)
    }

    fn error(self) -> io::Error {
        match self {
            Self::Code(code) => io::Error::from_raw_os_error(code),
            Self::Kind(kind) => kind.into(),
        }
    }
}

/// The source of an error.
#[derive(Debug)]
pub(super) struct Source {
    text: String,
    cause: Option<io::Error>,
}

impl Source {
    /// `text` must not contain a secret.
    pub(super) fn new(text: String, cause: Option<Cause>) -> Self {
        Self { text, cause: cause.map(Cause::error) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Source {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}
