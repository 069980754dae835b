//! Describes why a node returned no valid reply, without revealing secrets.
//!
//! A [`Fault`] is not a vote: it is unknown whether the node granted. It is never reported as "held by another". The
//! server's error text may repeat the password, so it is stored separately until code that knows the password has
//! removed it.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Cause, ErrorKind};

/// The reason why a node returned no valid reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Our own text. It is shared, because a connection that breaks returns the same error to all waiting callers.
    text: Arc<str>,
    /// The quoted server text. Boxed, because it is rare and every vote has room for it.
    quote: Option<Box<Quote>>,
    /// Whether another attempt can succeed.
    remedy: Remedy,
    /// The error of the operating system, if there is one.
    cause: Option<Cause>,
    /// What the error shows about the server.
    sign: Sign,
}

/// What an error shows about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// Nothing. It may not have been reached.
    Unknown,
    /// No connection to it was opened.
    Unreached,
    /// Another server of the cluster has the key.
    Redirect,
    /// It was reached, and does not run this command for now.
    Declined,
    /// It, or a proxy in front of it, closed the connection instead of replying.
    HungUp,
}

/// A server must repeat a refusal after this time before it counts. Users, passwords and proxies may change at several
/// places within some hundred milliseconds.
pub(crate) const CONFIRMED_AFTER: Duration = Duration::from_secs(1);

/// Whether another attempt can succeed, and what has to change before one can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remedy {
    /// Another attempt can succeed.
    Retry,
    /// Only after a change at the server, which refused this user, password or database once.
    Refused,
    /// Only after a change at the server, which has repeated its refusal after [`CONFIRMED_AFTER`].
    Confirmed,
    /// Not with this server or this key, because the server lacks a feature or the key holds data of another type.
    Unsupported,
    /// Only after a change of the caller's options.
    Invalid,
}

/// The error text of a server, followed by our own text. It may repeat a password, so it is never shown unredacted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Quote {
    /// Unredacted, and therefore never shown.
    Raw(Arc<str>, Cow<'static, str>),
    Redacted(Arc<str>, Cow<'static, str>),
}

impl Fault {
    /// Creates an error with our own text. It must not contain the text of a server, for which [`Fault::saying`]
    /// exists.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let (quote, remedy, cause, sign) = (None, Remedy::Retry, None, Sign::Unknown);
        Self { text: text.into().into(), quote, remedy, cause, sign }
    }

    /// Creates the error of a connection, with the system's text, which contains no secret.
    pub(crate) fn broken(error: &io::Error) -> Self {
        Self::new(format!("the connection broke: {error}")).by(error)
    }

    /// Creates the error of a vote at a server without the key's hash slot. `migrates` is whether the slot is
    /// on its way to the other server.
    pub(crate) fn redirect(migrates: bool) -> Self {
        let text = if migrates {
            "the key's hash slot is migrating to another server of the cluster"
        } else {
            "another server of the cluster has the key's hash slot"
        };
        Self { sign: Sign::Redirect, ..Self::new(text) }
    }

    /// Whether the same vote can succeed at another server of the cluster.
    pub(crate) fn is_redirect(&self) -> bool {
        self.sign == Sign::Redirect
    }

    /// Marks the error of an attempt that opened no connection.
    pub(crate) fn unreached(self) -> Self {
        Self { sign: Sign::Unreached, ..self }
    }

    /// Whether an attempt opened no connection, so that the address may be wrong.
    pub(crate) fn is_unreached(&self) -> bool {
        self.sign == Sign::Unreached
    }

    /// Marks the error of a server that was reached and does not run the command. It may run others.
    pub(crate) fn declined(self) -> Self {
        Self { sign: Sign::Declined, ..self }
    }

    /// Whether the server was reached and did not run the command.
    pub(crate) fn is_declined(&self) -> bool {
        self.sign == Sign::Declined
    }

    /// Marks the error of a connection that the server closed instead of replying.
    pub(crate) fn hung_up(self) -> Self {
        Self { sign: Sign::HungUp, ..self }
    }

    /// Whether the server closed the connection instead of replying. It may not support a command.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.sign == Sign::HungUp
    }

    /// Adds the error of the operating system as the cause.
    pub(crate) fn by(self, error: &io::Error) -> Self {
        Self { cause: Cause::from_io(error), ..self }
    }

    /// Takes the cause and the remedy from another error. The caller includes the text of that error.
    pub(crate) fn after(self, other: &Self) -> Self {
        Self { cause: other.cause, remedy: other.remedy, ..self }
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Creates an error that no retry can fix, because the options name the wrong server.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { remedy: Remedy::Invalid, ..Self::new(text) }
    }

    /// Creates an error that no retry can fix, because the server lacks a feature or the key holds data of another
    /// type.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self { remedy: Remedy::Unsupported, ..Self::new(text) }
    }

    /// Marks the error as a refusal of this user, password or database.
    pub(crate) fn refused(self) -> Self {
        Self { remedy: self.remedy.max(Remedy::Refused), ..self }
    }

    /// Converts the error of a failed attempt to connect. `refused_for` is the time since the first of consecutive
    /// attempts without a remedy. `worked` means that the node had a connection before.
    pub(crate) fn of_attempt(self, refused_for: Duration, worked: bool) -> Self {
        let remedy = match self.remedy {
            Remedy::Refused if refused_for >= CONFIRMED_AFTER => Remedy::Confirmed,
            // The options were right, so another server may be there for a short time.
            Remedy::Unsupported | Remedy::Invalid if worked && refused_for < CONFIRMED_AFTER => {
                Remedy::Retry
            }
            remedy => remedy,
        };
        Self { remedy, ..self }
    }

    /// Prefixes the error with its origin, unless it names that already.
    pub(crate) fn with_origin(self, place: &str) -> Self {
        let origin = format!("{place}: ");
        if self.text.contains(&origin) {
            return self;
        }
        Self { text: (origin + &self.text).into(), ..self }
    }

    /// Appends a hint for the user.
    pub(crate) fn hinting(self, hint: &str) -> Self {
        let Some(quote) = self.quote else {
            return Self { text: format!("{} ({hint})", self.text).into(), ..self };
        };
        let hinted = |after: Cow<'_, str>| Cow::Owned(format!("{after} ({hint})"));
        let quote = match *quote {
            Quote::Raw(words, after) => Quote::Raw(words, hinted(after)),
            Quote::Redacted(words, after) => Quote::Redacted(words, hinted(after)),
        };
        Self { quote: Some(Box::new(quote)), ..self }
    }

    /// Adds the server's text, followed by `after`.
    pub(crate) fn saying(self, words: &str, after: &'static str) -> Self {
        Self { quote: Some(Box::new(Quote::Raw(words.into(), after.into()))), ..self }
    }

    /// Redacts the server's text.
    ///
    /// Later calls have no effect, because no unredacted text is left.
    pub(crate) fn redacted(self, redact: impl FnOnce(&str) -> String) -> Self {
        let redacted = |quote| match quote {
            Quote::Raw(words, after) => Quote::Redacted(redact(&words).into(), after),
            clean @ Quote::Redacted(..) => clean,
        };
        Self { quote: self.quote.map(|quote| Box::new(redacted(*quote))), ..self }
    }

    /// Returns the kind of the error for the caller, if no retry can help.
    pub(crate) fn permanent(&self) -> Option<ErrorKind> {
        match self.remedy {
            Remedy::Unsupported => Some(ErrorKind::Unsupported),
            Remedy::Invalid => Some(ErrorKind::Invalid),
            Remedy::Retry | Remedy::Refused | Remedy::Confirmed => None,
        }
    }

    /// Returns what distinguishes it from other kinds of errors: our own text, and the code of the server's error. The
    /// rest of that may differ each time.
    pub(crate) fn kind(&self) -> (Arc<str>, Option<String>) {
        let code = |quote: &Quote| match quote {
            Quote::Raw(..) => None,
            Quote::Redacted(words, _) => words.split_whitespace().next().map(str::to_owned),
        };
        (Arc::clone(&self.text), self.quote.as_deref().and_then(code))
    }

    pub(crate) fn remedy(&self) -> Remedy {
        self.remedy
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.quote.as_deref() {
            None => Ok(()),
            // Without redaction nothing is shown, so that no secret leaks.
            Some(Quote::Raw(_, after)) => write!(f, "(unread){after}"),
            Some(Quote::Redacted(words, after)) => write!(f, "{words}{after}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_repeated_refusals_are_permanent() {
        let soon = CONFIRMED_AFTER.saturating_sub(Duration::from_millis(1));
        for (fault, worked, after, at_first, later) in [
            (Fault::new(""), true, Duration::MAX, Remedy::Retry, Remedy::Retry),
            (Fault::new("").refused(), false, soon, Remedy::Refused, Remedy::Confirmed),
            (Fault::new("").refused(), true, soon, Remedy::Refused, Remedy::Confirmed),
            (Fault::invalid(""), true, soon, Remedy::Retry, Remedy::Invalid),
            (Fault::unsupported(""), true, soon, Remedy::Retry, Remedy::Unsupported),
            // A node that never worked probably never will.
            (Fault::invalid(""), false, Duration::ZERO, Remedy::Invalid, Remedy::Invalid),
            (
                Fault::unsupported(""),
                false,
                Duration::ZERO,
                Remedy::Unsupported,
                Remedy::Unsupported,
            ),
        ] {
            assert_eq!(fault.clone().of_attempt(after, worked).remedy(), at_first, "{fault:?}");
            assert_eq!(fault.of_attempt(CONFIRMED_AFTER, worked).remedy(), later);
        }
    }
}
