//! Names of options and methods in messages, as the caller's language writes them.
//!
//! One text for each message stands in the core, with the names as Rust and Python write them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// One for the whole process: a binding is the only user of its own copy of this library.
/// Set when the Node binding is loaded, before any message is made.
static CAMEL_CASE: AtomicBool = AtomicBool::new(false);

/// From now on messages and logs write `restartGuard`, not `restart_guard`.
pub fn spell_in_camel_case() {
    CAMEL_CASE.store(true, Ordering::Relaxed);
}

/// A name of Rust's and Python's, as the caller writes it.
pub fn spelled(name: &str) -> Cow<'_, str> {
    if camel_case() { joined(name).into() } else { name.into() }
}

/// Where a text must be written out for each spelling.
/// Whether that is the caller's way.
pub(crate) fn camel_case() -> bool {
    CAMEL_CASE.load(Ordering::Relaxed)
}

/// `max_hold` as `maxHold`.
fn joined(name: &str) -> String {
    let mut words = name.split('_');
    let mut spelled = words.next().unwrap_or_default().to_owned();
    for word in words {
        // Names are ASCII, so one byte is one letter; an empty part stays empty.
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
    fn words_are_joined_by_capitals() {
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
