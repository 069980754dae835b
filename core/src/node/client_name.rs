//! How a client's connections are called: where, and by which rule.

/// What connections are called where nothing else is said.
pub(crate) const DEFAULT: &str = "redlock";

/// What a name must be, in words.
pub(crate) const RULE: &str =
    "must be 1 to 255 letters, digits and signs of ASCII: servers take no spaces in it";

/// Whether a server takes it: of other characters Redis refuses the name, and the log of one line could become two.
pub(crate) fn fits(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}
