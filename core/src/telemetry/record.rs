//! Log events as plain data, which are the same in every language, and their delivery to a binding.
//!
//! A binding receives them on the thread where they occur, instead of `tracing`.

use std::any::Any;
use std::fmt::{self, Display, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::text::shown;

/// The level of an event, from the most to the least important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The library itself is broken.
    Error = 1,
    /// Needs attention.
    Warn,
    /// Useful for operators.
    Info,
    /// Every step.
    Debug,
}

/// The topic of an event. Logs are enabled by topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Topic {
    /// Acquiring locks and waiting for them.
    Acquire,
    /// Held leases: renewals, releases and losses.
    Lease,
    /// Servers and the connections to them.
    Node,
    /// The configuration of a client.
    Client,
}

impl Topic {
    /// All topics, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Acquire, Self::Lease, Self::Node, Self::Client];

    /// The name of the topic in logs.
    pub const fn as_str(self) -> &'static str {
        // The end of the target, so that there is only one list of names.
        self.target().split_at("redlock::".len()).1
    }

    /// The target in Rust's logs.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Acquire => "redlock::acquire",
            Self::Lease => "redlock::lease",
            Self::Node => "redlock::node",
            Self::Client => "redlock::client",
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, escaped by [`shown`].
    Text(String),
    /// A number. Times are in milliseconds.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// Unknown.
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

/// Converts to milliseconds, with microsecond precision.
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

/// Where a program acquired a lease, in the notation of its language. Only messages show it.
pub trait CallSite: Any + fmt::Debug + Display + Send + Sync {}

impl<T: Any + fmt::Debug + Display + Send + Sync> CallSite for T {}

/// The thread or task that acquires or holds a lock in its process, if the language knows it.
///
/// A word for messages ("this thread") and a number that distinguishes two owners with the same word. Only messages use
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub &'static str, pub u64);

/// One event.
#[derive(Clone, Debug)]
pub struct Record {
    /// The level.
    pub level: Level,
    /// The topic.
    pub topic: Topic,
    /// The text, which is the same for all events of a kind. Variable parts are in braces.
    pub template: &'static str,
    /// The values for the braces, in the order of the template.
    pub parts: Vec<(&'static str, String)>,
    /// The fields.
    pub fields: Vec<(&'static str, Value)>,
    /// Where the lease of the event was acquired, if the binding recorded it.
    pub call_site: Option<Arc<dyn CallSite>>,
}

impl Record {
    /// The message without the fields.
    pub fn message(&self) -> String {
        self.written(|part, to| to.push_str(part), |rest, to| to.push_str(rest))
    }

    /// The message, followed by its fields as ` name=value`. For logs with one line per event.
    pub fn text(&self) -> String {
        let mut text = self.message();
        for (name, value) in self.known() {
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}={value}");
        }
        text
    }

    /// The same with `%s` for each part and each known field. Logs can group events by this text.
    pub fn percent_template(&self) -> String {
        let escape = |rest: &str, to: &mut String| to.push_str(&rest.replace('%', "%%"));
        let mut text = self.written(|_, to| to.push_str("%s"), escape);
        for (name, _) in self.known() {
            let _ = write!(text, " {name}=%s");
        }
        text
    }

    /// The fields with a known value.
    pub fn known(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.fields.iter().filter(|(_, value)| *value != Value::Nothing)
    }

    /// Formats the template: `part` writes the parts, and `rest` writes the text between them.
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

static LISTENER: OnceLock<fn(Record)> = OnceLock::new();
/// The least important level that the listener wants, indexed by topic.
static WANTED: [AtomicU8; Topic::ALL.len()] = [const { AtomicU8::new(0) }; Topic::ALL.len()];

/// Sets the listener, which is called on the thread of each event. It must neither block nor call back.
///
/// [`want`] sets which events it receives.
pub fn listen(listener: fn(Record)) {
    // The first listener stays, because a binding is loaded once.
    let _ = LISTENER.set(listener);
}

/// Sets the least important level that the listener wants of a topic. `None` disables the topic.
pub fn want(topic: Topic, level: Option<Level>) {
    WANTED[topic as usize].store(level.map_or(0, |level| level as u8), Ordering::Relaxed);
}

/// Logs an event of the binding.
pub fn log_event(record: Record) {
    if wants(record.level, record.topic) {
        pass_to_listener(record);
    }
}

/// Whether the listener wants such events. This is cheap: it reads one atomic.
#[inline]
pub(crate) fn wants(level: Level, topic: Topic) -> bool {
    level as u8 <= WANTED[topic as usize].load(Ordering::Relaxed)
}

pub(crate) fn has_listener() -> bool {
    LISTENER.get().is_some()
}

/// Passes the record to the listener. Returns it if no listener is set.
pub(crate) fn pass_to_listener(record: Record) -> Option<Record> {
    let Some(listener) = LISTENER.get() else { return Some(record) };
    // A panic in the listener must not end a lease.
    let _ = catch_unwind(AssertUnwindSafe(|| listener(record)));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_event_as_line_or_template() {
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
            call_site: None,
        };
        assert_eq!(record.message(), "100 % of it {why}: so");
        assert_eq!(record.text(), "100 % of it {why}: so key=lock:a\\nb waited_ms=1.5 dropped=3");
        assert_eq!(record.percent_template(), "100 %% of %s: %s key=%s waited_ms=%s dropped=%s");
        assert_eq!(Topic::ALL.map(Topic::as_str), ["acquire", "lease", "node", "client"]);
    }
}
