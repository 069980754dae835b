//! What no node's URL may be, and how one is refused: by the rule that it broke, and never quoted.

use url::Url;

use crate::error::Error;

/// What can be given: every refusal ends with it.
const SCHEMES: &str = "use redis://[user:pass@]host[:port][/db], rediss:// for TLS, redis+sentinel://host,host/service, redis+cluster://host,host, unix:///path or memory://[name]";

/// What the parser lets pass and no node can mean; the rule that it broke.
///
/// What would be ignored is refused: whoever wrote it believes that it does something.
pub(super) fn check(url: &Url) -> std::result::Result<(), &'static str> {
    let unix = url.scheme() == "unix";
    let hosts = url.host_str().is_some_and(|host| !host.is_empty());
    if hosts && unix {
        return Err("a path has no host: write three slashes");
    }
    if !hosts && !unix {
        return Err("it names no host");
    }
    // Else the end of the password would be looked up as a host, and shown in errors.
    if url.host_str().is_some_and(|host| host.contains('%')) {
        return Err("its host has a %: is the @ after a password written as %40?");
    }
    if url.fragment().is_some() {
        return Err("what follows the # is unknown");
    }
    Ok(())
}

/// What is not accepted is not quoted beyond its scheme: a password may stand anywhere in a URL that somebody got
/// wrong.
pub(crate) fn invalid_url(text: &str, rule: &str) -> Error {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    // What cannot be a scheme may be the beginning of a password.
    let plain = |c: char| c.is_ascii_lowercase() || c == '+';
    let node = if scheme.is_empty() || scheme.len() > 16 || !scheme.chars().all(plain) {
        "a node".to_owned()
    } else {
        format!("a node ({scheme}://...)")
    };
    Error::invalid(format!("{node} cannot be used: {rule}; {SCHEMES}"))
}

/// The parser's own words name no part of the text.
pub(super) fn unreadable(error: url::ParseError) -> String {
    format!(
        "{error}, as far as it can be read; write @, :, / and the like in a password as %40, %3A, %2F"
    )
}
