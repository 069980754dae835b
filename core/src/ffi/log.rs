//! An event of the library's log as one line of text.
//!
//! Python's `logging` and Node's console take lines: fields go behind the message, and nothing is left out.

use std::fmt::{self, Write};

use tracing::Event;
use tracing::field::{Field, Visit};

/// What an event says, and behind it its fields as ` name=value`.
pub fn log_text(event: &Event<'_>) -> String {
    let mut text = Text::default();
    event.record(&mut text);
    text.message + &text.fields
}

/// The line's two parts: fields may come before the message.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    // As it is, without the quotes that `Debug` puts around a string.
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
