//! What no node's URL may be, and how one is refused: by the rule that it broke, and never quoted.

use std::borrow::Cow;

use url::{Host, Url};

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

/// The text without the blanks and quotes that shells and `docker --env-file` leave around it, and with its scheme in
/// lower case.
pub(crate) fn cleaned(text: &str) -> Cow<'_, str> {
    let mut text = text.trim();
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
        text = inner.map_or(text, str::trim);
    }
    match text.split_once("://") {
        Some((scheme, rest)) if scheme.contains(|c: char| c.is_ascii_uppercase()) => {
            Cow::Owned(format!("{}://{rest}", scheme.to_ascii_lowercase()))
        }
        _ => Cow::Borrowed(text),
    }
}

/// What the scheme's own rules would describe as something else; the rule that was broken. `rest` follows the scheme.
pub(crate) fn misread(scheme: &str, rest: &str) -> Option<&'static str> {
    if scheme.starts_with(['"', '\'']) || rest.ends_with(['"', '\'']) {
        return Some("it has a quote at one end: remove it");
    }
    if rest.contains("://") {
        return Some(
            "it holds several URLs: give a list with one URL per node, or separate them by spaces in REDLOCK_NODES",
        );
    }
    // A path of files may have an @, and so may the value of a parameter.
    let end = rest.find(['/', '?', '#']).filter(|_| scheme != "unix")?;
    let (authority, behind) = rest.split_at(end);
    let login = behind.split_once('@').map(|(login, _)| login)?;
    if authority.contains('@') || login.contains('=') {
        return None;
    }
    Some(match &behind[..1] {
        "/" => "it has an @ behind a /: write / in a password as %2F",
        "?" => "it has an @ behind a ?: write ? in a password as %3F",
        _ => "it has an @ behind a #: write # in a password as %23",
    })
}

/// A URL with one host, as the parser reads it, and the host's zone.
///
/// The parser knows neither zones of IPv6 addresses (`[fe80::1%25eth0]`, RFC 6874) nor names beyond ASCII.
pub(super) fn without_zone(
    text: &str,
) -> std::result::Result<(Cow<'_, str>, Option<&str>), String> {
    let Some((scheme, rest)) = text.split_once("://") else { return Ok((text.into(), None)) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (login, place) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    if let Some((address, port)) = place.strip_prefix('[').and_then(|place| place.split_once(']')) {
        let Some((address, zone)) = address.split_once('%') else { return Ok((text.into(), None)) };
        let zone = zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if zone.is_empty() || !zone.chars().all(plain) {
            return Err(
                "the zone of its IPv6 address is not the name or number of an interface".into()
            );
        }
        return Ok((format!("{scheme}://{login}[{address}]{port}{behind}").into(), Some(zone)));
    }
    let (host, port) = place.split_at(place.rfind(':').unwrap_or(place.len()));
    if host.is_ascii() {
        return Ok((text.into(), None));
    }
    match Host::parse(host) {
        Ok(Host::Domain(host)) => {
            Ok((format!("{scheme}://{login}{host}{port}{behind}").into(), None))
        }
        _ => Err("its host is not a valid name".into()),
    }
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
