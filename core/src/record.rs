//! What the library has to say, as plain data: the same in every language.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use crate::text::shown;

/// How much it matters, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something of ours is broken.
    Error = 1,
    /// Somebody should look.
    Warn,
    /// What operators like to find in a log.
    Info,
    /// Every step.
    Debug,
}

/// What it is about: by this, logs are turned on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Topic {
    /// Asking for locks and waiting for them.
    Acquire,
    /// What is held: renewed, released, lost.
    Lease,
    /// Servers, and the connections to them.
    Node,
    /// How a client was set up.
    Client,
}

impl Topic {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Acquire, Self::Lease, Self::Node, Self::Client];

    /// As logs call it.
    pub const fn as_str(self) -> &'static str {
        // Its end: one list of names is enough.
        self.target().split_at("redlock::".len()).1
    }

    /// As Rust's logs call it.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Acquire => "redlock::acquire",
            Self::Lease => "redlock::lease",
            Self::Node => "redlock::node",
            Self::Client => "redlock::client",
        }
    }
}

/// A value beside an event's words.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// As [`shown`] shows it.
    Text(String),
    /// Of a time: milliseconds.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// Not known.
    Nothing,
}

impl Display for Value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => to.write_str(text),
            Self::Number(number) => number.fmt(to),
            Self::Count(count) => count.fmt(to),
            Self::Nothing => to.write_str("unknown"),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(shown(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::from(&*text)
    }
}

/// In milliseconds, to the microsecond.
impl From<Duration> for Value {
    fn from(time: Duration) -> Self {
        Self::Number((time.as_secs_f64() * 1e6).round() / 1e3)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, T::into)
    }
}

/// One event.
#[derive(Clone, Debug)]
pub struct Record {
    /// How much it matters.
    pub level: Level,
    /// What it is about.
    pub topic: Topic,
    /// Its words, the same for all events of a kind; braces name what differs.
    pub template: &'static str,
    /// What stands in the braces, in the order of the template.
    pub parts: Vec<(&'static str, String)>,
    /// Its data.
    pub fields: Vec<(&'static str, Value)>,
}

impl Record {
    /// What it says, without its fields.
    pub fn message(&self) -> String {
        self.written(|part, to| to.push_str(part), |rest, to| to.push_str(rest))
    }

    /// What it says, and behind it its fields as ` name=value`: for logs that take lines.
    pub fn text(&self) -> String {
        let mut text = self.message();
        for (name, value) in self.known() {
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}={value}");
        }
        text
    }

    /// The same with `%s` for each part, then for each field that is known: one text for all events of a kind, by which
    /// logs group them.
    pub fn percent_template(&self) -> String {
        let escape = |rest: &str, to: &mut String| to.push_str(&rest.replace('%', "%%"));
        let mut text = self.written(|_, to| to.push_str("%s"), escape);
        for (name, _) in self.known() {
            let _ = write!(text, " {name}=%s");
        }
        text
    }

    /// The fields that are known.
    pub fn known(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.fields.iter().filter(|(_, value)| *value != Value::Nothing)
    }

    /// The template, with its parts and with what is between them.
    fn written(
        &self,
        part: impl Fn(&str, &mut String),
        rest: impl Fn(&str, &mut String),
    ) -> String {
        let (mut text, mut left) = (String::new(), self.template);
        for (name, value) in &self.parts {
            let Some((before, after)) = left.split_once(&format!("{{{name}}}")) else { continue };
            rest(before, &mut text);
            part(value, &mut text);
            left = after;
        }
        rest(left, &mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_is_a_line_or_a_template() {
        let record = Record {
            level: Level::Warn,
            topic: Topic::Lease,
            template: "100 % of {what}: {why}",
            parts: vec![("what", "it {why}".into()), ("why", "so".into())],
            fields: vec![
                ("key", "lock:a\nb".into()),
                ("waited_ms", Duration::from_micros(1500).into()),
                ("remaining_ms", None::<Duration>.into()),
                ("dropped", 3.into()),
            ],
        };
        assert_eq!(record.message(), "100 % of it {why}: so");
        assert_eq!(record.text(), "100 % of it {why}: so key=lock:a\\nb waited_ms=1.5 dropped=3");
        assert_eq!(record.percent_template(), "100 %% of %s: %s key=%s waited_ms=%s dropped=%s");
        assert_eq!(Topic::ALL.map(Topic::as_str), ["acquire", "lease", "node", "client"]);
    }
}
