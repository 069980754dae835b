//! Text from other sources in messages and logs, and the spelling of options in messages.
//!
//! Keys, names and texts of servers may be untrusted. They must not forge a line of a log, control a terminal or fill a
//! screen. They must not show a whole token either, because knowing it is enough to release the lease.
//! Passwords are removed before, by `Route::redact`.
//!
//! The core has one text for each message, with the names of options as Rust and Python write them.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The maximum length that is shown, in characters.
const MAX_CHARS: usize = 200;

/// The number of hex digits of a token.
pub(crate) const TOKEN_DIGITS: usize = 32;

/// How many of them are shown.
const SHOWN_DIGITS: usize = 8;

/// Text on one line, without whole tokens and characters that control a terminal, cut at 200 characters.
pub fn shown(text: &str) -> String {
    // Cut after tokens are shortened, because part of a token could remain otherwise. Cut before escaping, because
    // escapes make the text longer.
    let text = without_tokens(text);
    let mut shown = escaped(text.chars().take(MAX_CHARS));
    if text.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// The host and the port. The address of IPv6 has brackets.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Text on one line, without whole tokens and characters that control a terminal.
pub(crate) fn on_one_line(text: &str) -> String {
    escaped(without_tokens(text).chars())
}

/// Shortens each sequence of at least 32 hex digits to its first 8. It may be a token, or contain one.
fn without_tokens(text: &str) -> Cow<'_, str> {
    let is_token = |digits: &&str| digits.len() >= TOKEN_DIGITS;
    let sequences = || text.split(|character: char| !character.is_ascii_hexdigit());
    if !sequences().any(|digits| is_token(&digits)) {
        return text.into();
    }
    let (mut shortened, mut end) = (String::with_capacity(text.len()), 0);
    for token in sequences().filter(is_token) {
        // Hex digits are ASCII, so each is one byte.
        let begin = token.as_ptr().addr() - text.as_ptr().addr();
        shortened.push_str(&text[end..begin + SHOWN_DIGITS]);
        shortened.push('…');
        end = begin + token.len();
    }
    shortened.push_str(&text[end..]);
    shortened.into()
}

/// Escapes control characters, and characters that break a line or change the direction of writing.
pub(crate) fn escaped(text: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for character in text {
        if is_control(character) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Control characters, line and paragraph separators, and characters that change the direction of writing.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// Whether names are in camel case. One flag per process is enough, because each binding has its own copy of the
/// library.
///
/// The Node binding sets it when it is loaded, before any message is made.
static CAMEL_CASE: AtomicBool = AtomicBool::new(false);

/// Makes messages and logs write `restartGuard` instead of `restart_guard` from now on.
pub fn spell_in_camel_case() {
    CAMEL_CASE.store(true, Ordering::Relaxed);
}

/// The name as the caller's language writes it.
pub fn spelled(name: &str) -> Cow<'_, str> {
    if camel_case() { joined(name).into() } else { name.into() }
}

/// The text, in which these options are written as the caller's language does.
pub(crate) fn with_spelled(text: &str, options: &[&str]) -> String {
    options.iter().fold(text.to_owned(), |text, option| text.replace(option, &spelled(option)))
}

/// The value of a time option, in the unit of the caller's language: `300 ms` in Node.js, otherwise `0.3 s`.
pub(crate) fn spelled_time(time: Duration) -> String {
    if camel_case() { in_milliseconds(time) } else { format!("{} s", time.as_secs_f64()) }
}

#[expect(clippy::cast_precision_loss, reason = "exact for ten years, the longest valid time")]
fn in_milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_micros() as f64 / 1e3)
}

/// Whether the caller writes names in camel case. For texts that must be written out for each spelling.
pub(crate) fn camel_case() -> bool {
    CAMEL_CASE.load(Ordering::Relaxed)
}

/// `max_hold` as `maxHold`.
fn joined(name: &str) -> String {
    let mut words = name.split('_');
    let mut spelled = words.next().unwrap_or_default().to_owned();
    for word in words {
        // Names are ASCII, so one byte is one letter. An empty part stays empty.
        let (first, rest) = word.split_at(word.len().min(1));
        spelled += &first.to_uppercase();
        spelled += rest;
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_truncates_foreign_text() {
        assert_eq!(
            shown("job\r\nERROR \u{1b}[2J \u{202e}x"),
            "job\\r\\nERROR \\u{1b}[2J \\u{202e}x"
        );
        assert_eq!(shown("größe: 5 µs"), "größe: 5 µs");
        assert_eq!(shown(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shown(&"é".repeat(201)), format!("{}…", "é".repeat(200)));
    }

    #[test]
    fn shortens_tokens_in_every_form() {
        const TOKEN: &str = "0123456789abcdef0123456789abcdef";
        let upper = TOKEN.to_uppercase();
        for (text, short) in [
            (TOKEN, "01234567…"),
            (&*upper, "01234567…"),
            (&format!("'kept:{TOKEN}'\n{upper}"), "'kept:01234567…'\\n01234567…"),
            (&format!("ab{TOKEN}{TOKEN}9"), "ab012345…"),
            (&format!("größe {TOKEN}é"), "größe 01234567…é"),
            (&TOKEN[1..], &TOKEN[1..]),
        ] {
            assert_eq!(shown(text), short);
            assert_eq!(on_one_line(text), short);
            assert_eq!(shown(&shown(text)), shown(short));
        }
        // No part of a token is left where the text is cut.
        let cut = shown(&format!("{}{TOKEN}", "x".repeat(MAX_CHARS - 20)));
        assert!(cut.ends_with("x01234567…"), "{cut}");
    }

    #[test]
    fn times_have_no_trailing_zeros() {
        for (micros, seconds, milliseconds) in [
            (0, "0 s", "0 ms"),
            (1_500, "0.0015 s", "1.5 ms"),
            (100_000, "0.1 s", "100 ms"),
            (10_000_000, "10 s", "10000 ms"),
        ] {
            let time = Duration::from_micros(micros);
            assert_eq!((&*spelled_time(time), &*in_milliseconds(time)), (seconds, milliseconds));
        }
    }

    #[test]
    fn converts_to_camel_case() {
        for (name, spelled) in [
            ("ttl", "ttl"),
            ("max_hold", "maxHold"),
            ("tls_server_name", "tlsServerName"),
            ("release_all", "releaseAll"),
        ] {
            assert_eq!(joined(name), spelled);
        }
    }
}
