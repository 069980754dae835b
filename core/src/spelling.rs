//! Spells the names of options and methods in messages as the caller's language does.
//!
//! The core has one text for each message, with the names as Rust and Python write them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

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
    use super::joined;

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
