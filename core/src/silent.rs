//! In place of the log, where the feature `tracing` is off: nothing is said.

/// Takes what the log's macro takes, so that what has something to say is the same with and without it.
macro_rules! event {
    ($level:ident, {$($field:ident: $value:expr),* $(,)?}, $text:literal $(, $name:ident = $part:expr)* $(,)?) => {
        if false {
            $(let _ = &$value;)*
            $(let _ = &$part;)*
        }
    };
}
pub(crate) use event;
