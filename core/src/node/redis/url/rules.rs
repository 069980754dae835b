//! Checks the rules of all node URLs. An error names the violated rule and never quotes the URL.

use std::borrow::Cow;

use url::{Host, Url};

use crate::error::Error;

/// The valid forms, which end every error.
const SCHEMES: &str = "Use redis://[user:pass@]host[:port][/db], rediss:// for TLS, \
    redis+sentinel://host,host/service, redis+cluster://host,host, unix:///path or memory://[name]";

/// Refuses what the parser accepts and no node can mean. Returns the violated rule.
///
/// Ignoring such a part would suggest that it has an effect.
pub(crate) fn check(url: &Url) -> std::result::Result<(), &'static str> {
    let unix = url.scheme() == "unix";
    let hosts = url.host_str().is_some_and(|host| !host.is_empty());
    if hosts && unix {
        return Err("a socket path has no host. Write three slashes");
    }
    if !hosts && !unix {
        return Err("it has no host");
    }
    // Otherwise the end of the password would be resolved as a host, and shown in errors.
    if url.host_str().is_some_and(|host| host.contains('%')) {
        return Err("its host contains a %. Do not write the @ before the host as %40");
    }
    if url.fragment().is_some() {
        return Err("it must not have a part after a #");
    }
    Ok(())
}

/// Removes the white space and quotes that shells and `docker --env-file` leave around the text. Converts the scheme to
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

/// Detects mistakes that the rules of the scheme would describe misleadingly. Returns the violated rule. `rest` follows
/// the scheme.
pub(crate) fn misread(scheme: &str, rest: &str) -> Option<&'static str> {
    if scheme.starts_with(['"', '\'']) || rest.ends_with(['"', '\'']) {
        return Some("it has a quote at one end. Remove it");
    }
    if rest.contains("://") {
        return Some(
            "it contains several URLs. Pass a list with one URL per node, or separate them by spaces in REDLOCK_NODES",
        );
    }
    // The path of a file may contain an `@`, and so may the value of a parameter.
    let end = rest.find(['/', '?', '#']).filter(|_| scheme != "unix")?;
    let (authority, behind) = rest.split_at(end);
    let login = behind.split_once('@').map(|(login, _)| login)?;
    if authority.contains('@') || login.contains('=') {
        return None;
    }
    Some(match &behind[..1] {
        "/" => "it has an @ after a /. Write / in a password as %2F",
        "?" => "it has an @ after a ?. Write ? in a password as %3F",
        _ => "it has an @ after a #. Write # in a password as %23",
    })
}

/// Refuses several hosts. The parser would take them for one name, and the first ones with a login for a password.
fn check_one_host(login: &str, place: &str) -> std::result::Result<(), &'static str> {
    if place.contains(',') {
        return Err(
            "it names several hosts. Pass a list with one URL per node, redis+sentinel://host,host/service for \
             sentinels, or redis+cluster://host,host for a cluster",
        );
    }
    let earlier = login.strip_suffix('@').unwrap_or_default();
    if earlier.split_once('@').is_some_and(|(_, behind)| behind.contains(',')) {
        return Err(
            "it names several hosts with logins. Pass a list with one URL per node (write @ in a password as %40)",
        );
    }
    Ok(())
}

/// Returns a URL with one host in the form that the parser accepts, and the host's zone.
///
/// The parser supports neither zones of IPv6 addresses (`[fe80::1%25eth0]`, RFC 6874) nor names beyond ASCII.
pub(crate) fn without_zone(
    text: &str,
) -> std::result::Result<(Cow<'_, str>, Option<&str>), String> {
    let Some((scheme, rest)) = text.split_once("://") else { return Ok((text.into(), None)) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (login, place) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    check_one_host(login, place)?;
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

/// Builds the error for a URL. It shows only the scheme, because any part of a malformed URL may contain a password.
pub(crate) fn invalid_url(text: &str, rule: &str) -> Error {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    // Text that cannot be a scheme may be the beginning of a password.
    let plain = |c: char| c.is_ascii_lowercase() || c == '+';
    let node = if scheme.is_empty() || scheme.len() > 16 || !scheme.chars().all(plain) {
        "a node".to_owned()
    } else {
        format!("a node ({scheme}://...)")
    };
    Error::invalid(format!("{node} cannot be used: {rule}. {SCHEMES}"))
}
