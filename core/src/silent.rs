//! Replaces the log if the feature `tracing` is disabled. It logs nothing.

use crate::record::{Level, Topic};

/// Replaces the subscriber and span of an event.
pub(crate) struct Place;

/// Accepts the same arguments as the macro of the log, so that callers need no condition.
macro_rules! event {
    ($level:ident, $topic:ident, $(in $place:expr,)? {$($field:ident: $value:expr),* $(,)?},
     $text:literal $(, $name:ident = $part:expr)* $(,)?) => {
        if $crate::log::wanted($crate::record::Level::$level, $crate::record::Topic::$topic) {
            $(let _ = &$place;)?
            $(let _ = &$value;)*
            $(let _ = &$part;)*
        }
    };
}
pub(crate) use event;

/// No event is wanted.
#[inline]
pub(crate) fn wanted(_: Level, _: Topic) -> bool {
    false
}
