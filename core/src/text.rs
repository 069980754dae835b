//! Texts that others wrote, as messages and logs show them.
//!
//! Keys, names and servers' words come from anybody: none may forge a line of a log, obey a terminal, or fill a
//! screen.

use std::fmt::Write;

/// More of one is not shown.
/// In characters, so that none is cut in two.
const MOST: usize = 200;

/// On one line, without what a terminal would obey, and cut at 200 characters.
pub fn shown(text: &str) -> String {
    // Cut first: escapes may make it longer, and the bound is on what was written.
    let mut shown = escaped(text.chars().take(MOST));
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// Characters that would begin a line of their own, or turn others around, as escapes.
pub(crate) fn escaped(text: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for character in text {
        if obeyed(character) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Control characters, line and paragraph separators, and those that change the direction of writing.
fn obeyed(character: char) -> bool {
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
    fn nothing_shown_can_forge_a_line_or_fill_a_screen() {
        assert_eq!(
            shown("job\r\nERROR \u{1b}[2J \u{202e}x"),
            "job\\r\\nERROR \\u{1b}[2J \\u{202e}x"
        );
        assert_eq!(shown("größe: 5 µs"), "größe: 5 µs");
        assert_eq!(shown(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shown(&"é".repeat(201)), format!("{}…", "é".repeat(200)));
    }
}
