//! Defines the default name of a client's connections, and the rule for names.

/// The name of connections if none is configured.
pub(crate) const DEFAULT: &str = "redlock";

/// The rule for a name, for error messages.
pub(crate) const RULE: &str = "must be 1 to 255 printable ASCII characters without spaces";

/// Whether a server accepts the name. Redis refuses other characters, and a line break could forge a log line.
pub(crate) fn fits(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}
