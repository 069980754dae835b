//! In place of the log, where the feature `tracing` is off: nothing is said.

use crate::record::{Level, Topic};

/// Where nothing is said.
pub(crate) struct Place;

/// Takes what the log's macro takes, so that what has something to say is the same with and without it.
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

/// Nothing is.
#[inline]
pub(crate) fn wanted(_: Level, _: Topic) -> bool {
    false
}
