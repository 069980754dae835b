//! Escapes and shortens text from other sources for messages and logs.
//!
//! Keys, names and texts of servers may be untrusted. They must not forge a line of a log, control a terminal or fill a
//! screen.

mod spelling;

use std::fmt::Write;

pub(crate) use spelling::{camel_case, spelled_time};
pub use spelling::{spell_in_camel_case, spelled};

/// The maximum length that is shown, in characters.
const MAX_CHARS: usize = 200;

/// Text on one line, without characters that control a terminal, cut at 200 characters.
pub fn shown(text: &str) -> String {
    // Cut before escaping, because escapes make the text longer.
    let mut shown = escaped(text.chars().take(MAX_CHARS));
    if text.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
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

#[cfg(test)]
mod tests {
    use super::shown;

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
}
