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
    /// Whether another attempt can succeed.
    remedy: Remedy,
    /// What the system said.
    cause: Option<Cause>,
}

/// Whether another attempt can succeed, and what has to change before one can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remedy {
    /// It can.
    Retry,
    /// Only after a change at the server: it refuses this user, password or database. It has said so once.
    Refused,
    /// The same, and the server has said so twice in a row.
    Confirmed,
    /// Not with this server, or not with this key: the server lacks a feature, or the key holds data of another type.
    Unsupported,
    /// Only after a change of the caller's own options.
    Invalid,
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
        Self { text: text.into().into(), quote: None, remedy: Remedy::Retry, cause: None }
    }

    /// A fault by what the system said, too.
    pub(crate) fn by(self, error: &io::Error) -> Self {
        Self { cause: Cause::of(error), ..self }
    }

    /// A fault by what another one said before; its own words are in the text.
    pub(crate) fn after(self, other: &Self) -> Self {
        Self { cause: other.cause, remedy: other.remedy, ..self }
    }

    /// What the system said, if it was asked.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// A fault that no retry can fix: the options name the wrong server.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { remedy: Remedy::Invalid, ..Self::new(text) }
    }

    /// A fault that no retry can fix: the server lacks a feature, or the key holds data of another type.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self { remedy: Remedy::Unsupported, ..Self::new(text) }
    }

    /// The fault as a refusal of this user, password or database, which the server has stated once.
    pub(crate) fn refused(self) -> Self {
        Self { remedy: self.remedy.max(Remedy::Refused), ..self }
    }

    /// The fault of a failed attempt to connect. A refusal counts as permanent if the attempt before was refused too.
    pub(crate) fn of_attempt(self, refused_before: bool) -> Self {
        match self.remedy {
            Remedy::Refused if refused_before => Self { remedy: Remedy::Confirmed, ..self },
            Remedy::Refused => Self { remedy: Remedy::Retry, ..self },
            _ => self,
        }
    }

    /// The fault with where it came from in front.
    pub(crate) fn of(self, place: &str) -> Self {
        Self { text: format!("{place}: {}", self.text).into(), ..self }
    }

    /// The fault with what may be the way out.
    pub(crate) fn hinting(self, hint: &str) -> Self {
        Self { text: format!("{} ({hint})", self.text).into(), ..self }
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
        match self.remedy {
            Remedy::Unsupported => Some(ErrorKind::Unsupported),
            Remedy::Invalid => Some(ErrorKind::Invalid),
            Remedy::Retry | Remedy::Refused | Remedy::Confirmed => None,
        }
    }

    /// Whether another attempt can succeed.
    pub(crate) fn remedy(&self) -> Remedy {
        self.remedy
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
