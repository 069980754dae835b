//! Labels of holders: their rule, the label of this process, and the label in the value of a key.
//!
//! Every client that can read the keys sees the labels, and can write any label. They identify no one.

use std::process;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::runtime::{PerProcess, host_name};
use crate::text::{TOKEN_DIGITS, shown, spelled};

/// The maximum length of a label.
const MAX_LABEL: usize = 48;

/// Which label a client or a lock writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelOption {
    /// None, even if the client has one.
    Off,
    /// The host and the process.
    Host,
    /// This text.
    Text(Arc<str>),
}

impl LabelOption {
    /// Checks the rule, so that a label cannot forge a value or a line of a log.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Text(label) if !is_label(label) => Err(Error::invalid(format!(
                "{} must have 1 to {MAX_LABEL} ASCII letters, digits or characters of ._@- (got {:?}). Shorten it, or \
                 replace other characters by -",
                spelled("label"),
                shown(label)
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the label to write. A forked child has another one for [`LabelOption::Host`].
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        static HOST: PerProcess<Arc<str>> = PerProcess::new();
        match self {
            Self::Off => None,
            Self::Host => {
                let label = HOST.get_or_make(|| of_process(&host_name(), process::id()).into());
                Some(Arc::clone(&label))
            }
            Self::Text(label) => Some(Arc::clone(label)),
        }
    }
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._@-".contains(&byte)
}

fn is_label(text: &str) -> bool {
    (1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(is_label_byte)
}

/// Returns the label of a process. The host is cut, so that the number of the process fits.
fn of_process(host: &str, process: u32) -> String {
    let process = process.to_string();
    let valid = |letter: char| u8::try_from(letter).is_ok_and(is_label_byte);
    let host = host.chars().map(|letter| if valid(letter) { letter } else { '-' });
    let mut label: String = host.take(MAX_LABEL - 1 - process.len()).collect();
    if label.is_empty() {
        label.push_str("host");
    }
    label + "-" + &process
}

/// The label of a holder. It follows the rule, so messages and logs may show it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label(Box<str>);

impl Label {
    /// Returns the label, if the text follows the rule.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        is_label(text).then(|| Self(text.into()))
    }

    /// Returns the label in the value of a key. Any other value is that of an owner without a label, of another
    /// library, or not a lock at all.
    pub(crate) fn of_token(token: &str) -> Option<Self> {
        let (digits, label) = token.split_at_checked(TOKEN_DIGITS)?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.bytes().all(is_digit).then(|| Self::parse(label.strip_prefix(':')?)).flatten()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn finds_the_label_of_a_token() {
        let longest = "x".repeat(MAX_LABEL);
        for label in ["web-3", "a", "A.b_c@d-9", &longest] {
            let found = Label::of_token(&format!("{DIGITS}:{label}")).unwrap();
            assert_eq!(found.as_str(), label);
            LabelOption::Text(label.into()).check().unwrap();
        }
    }

    #[test]
    fn foreign_value_has_no_label() {
        let too_long = format!("{DIGITS}:{}", "x".repeat(MAX_LABEL + 1));
        let huge = "x".repeat(10_000);
        for value in [
            "",
            "web-3",
            DIGITS,
            &format!("{DIGITS}:"),
            &format!("{DIGITS}web-3"),
            &format!("{DIGITS};web-3"),
            &format!("{}:web-3", &DIGITS[1..]),
            &format!("0{DIGITS}:web-3"),
            &format!("{}:web-3", DIGITS.to_uppercase()),
            &format!("kept:{DIGITS}:web-3"),
            &format!("{DIGITS}:web 3"),
            &format!("{DIGITS}:web:3"),
            &format!("{DIGITS}:web\n3"),
            &format!("{DIGITS}:\u{1b}[2J"),
            &format!("{DIGITS}:größe"),
            &format!("{}ö:web-3", &DIGITS[1..]),
            &too_long,
            &huge,
        ] {
            assert_eq!(Label::of_token(value), None, "{value:?}");
        }
    }

    #[test]
    fn label_of_a_process_follows_the_rule() {
        for (host, label) in [
            ("web-3", "web-3-7"),
            ("web 3.größe", "web-3.gr--e-7"),
            ("", "host-7"),
            (&"x".repeat(300), &format!("{}-7", "x".repeat(46))),
        ] {
            assert_eq!(of_process(host, 7), label);
            assert!(is_label(&of_process(host, u32::MAX)), "{host}");
        }
        assert!(is_label(&LabelOption::Host.text().unwrap()));
    }

    #[test]
    fn invalid_label_is_refused() {
        for label in ["", "a b", "a:b", "a\n", "ö", "a/b", &"x".repeat(49)] {
            let error = LabelOption::Text(label.into()).check().unwrap_err().to_string();
            assert!(error.starts_with("label must have 1 to 48 ASCII letters"), "{error}");
            assert!(error.contains("(got \"") && error.ends_with("by -"), "{error}");
        }
    }
}
