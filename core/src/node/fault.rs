//! Why a node gave no answer that counts, in words that give no secret away.
//!
//! A fault is no vote: whether the node granted is not known. It is never told as "held by another". A server's
//! own words may repeat the password that it was given, so they are kept apart until somebody who knows the
//! password has removed it.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::error::{Cause, ErrorKind};

/// Why a node gave no answer that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Ours. Shared: a connection that breaks gives the same fault to everybody who waits.
    text: Arc<str>,
    /// In a box: faults are rare, and every vote has room for one.
    quote: Option<Box<Quote>>,
    /// The kind of error that this is to the caller, if no retry can help.
    permanent: Option<ErrorKind>,
    /// What the system said.
    cause: Option<Cause>,
}

/// A server's own words, with what stands behind them. They may repeat a password, so none are shown as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Quote {
    /// As they came: never written out.
    Raw(Arc<str>, &'static str),
    /// As everybody may see them.
    Redacted(Arc<str>, &'static str),
}

impl Fault {
    /// A fault in our words.
    /// No server's words may be in it as they came: that is what [`Fault::saying`] is for.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into().into(), quote: None, permanent: None, cause: None }
    }

    /// A fault by what the system said, too.
    pub(crate) fn by(self, error: &io::Error) -> Self {
        Self { cause: Cause::of(error), ..self }
    }

    /// A fault by what another one said before; its own words are in the text.
    pub(crate) fn after(self, other: &Self) -> Self {
        Self { cause: other.cause, ..self }
    }

    /// What the system said, if it was asked.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// A fault that no retry can fix: the options name the wrong server.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { permanent: Some(ErrorKind::Invalid), ..Self::new(text) }
    }

    /// A fault that no retry can fix: the server lacks a feature, or the key holds data of another type.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self { permanent: Some(ErrorKind::Unsupported), ..Self::new(text) }
    }

    /// The fault with where it came from in front.
    pub(crate) fn of(self, place: &str) -> Self {
        Self { text: format!("{place}: {}", self.text).into(), ..self }
    }

    /// The fault in the server's words, between ours.
    pub(crate) fn saying(self, words: &str, after: &'static str) -> Self {
        Self { quote: Some(Box::new(Quote::Raw(words.into(), after))), ..self }
    }

    /// The fault with what the server said as everybody may see it.
    ///
    /// Once is enough: who comes later finds nothing raw.
    pub(crate) fn redacted(self, redact: impl FnOnce(&str) -> String) -> Self {
        let redacted = |quote| match quote {
            Quote::Raw(words, after) => Quote::Redacted(redact(&words).into(), after),
            clean @ Quote::Redacted(..) => clean,
        };
        Self { quote: self.quote.map(|quote| Box::new(redacted(*quote))), ..self }
    }

    /// The kind of error that this is to the caller, if no retry can help.
    pub(crate) fn permanent(&self) -> Option<ErrorKind> {
        self.permanent
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.quote.as_deref() {
            None => Ok(()),
            // A forgotten redaction shows nothing rather than a secret.
            Some(Quote::Raw(_, after)) => write!(f, "(unread){after}"),
            Some(Quote::Redacted(words, after)) => write!(f, "{words}{after}"),
        }
    }
}
