//! Spells the names and values of options in messages as the caller's language does.
//!
//! The core has one text for each message, with the names as Rust and Python write them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
