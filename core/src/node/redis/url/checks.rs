//! Rejects what the parser of URLs accepts and no node can mean, and prepares what it does not accept.
//!
//! Ignoring such a part would suggest that it has an effect.

use std::borrow::Cow;

use url::{Host, Url, form_urlencoded};

/// Rejects what the parser accepts and no node can mean. Returns the violated rule.
pub(super) fn check(url: &Url) -> std::result::Result<(), &'static str> {
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
    if url.host_str().is_some_and(is_wildcard) {
        return Err(
            "its host stands for all addresses of a server. Write one of them, such as 127.0.0.1",
        );
    }
    let texts =
        [url.username(), url.password().unwrap_or_default(), url.query().unwrap_or_default()];
    texts.into_iter().try_for_each(check_escapes)
}

/// Whether the host is a spelling of the address that a server uses to listen on all its addresses.
fn is_wildcard(host: &str) -> bool {
    // Parsed once more, because with a scheme that the parser does not know, an IPv4 address is a name.
    match Host::parse(host) {
        Ok(Host::Ipv4(address)) => address.is_unspecified(),
        Ok(Host::Ipv6(address)) => {
            address.is_unspecified()
                || address.to_ipv4_mapped().is_some_and(|v4| v4.is_unspecified())
        }
        Ok(Host::Domain(name)) => name == "*",
        Err(_) => false,
    }
}

/// Refuses a user, a password or a query whose decoded text is not UTF-8. The parser would replace such bytes.
pub(super) fn check_escapes(text: &str) -> std::result::Result<(), &'static str> {
    let odd = |word: Cow<'_, str>| word.contains(char::REPLACEMENT_CHARACTER);
    if form_urlencoded::parse(text.as_bytes()).any(|(name, value)| odd(name) || odd(value)) {
        return Err(
            "a user, a password or a parameter is not UTF-8. Write each character beyond ASCII as the % escapes of \
             its UTF-8 bytes",
        );
    }
    Ok(())
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
pub(super) fn without_zone(
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

/// Returns the login before the path of a socket, and the path with the parameters, as in `unix://:password@/path`.
pub(super) fn socket_login(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("unix://")?;
    let (authority, _) = rest.split_at(rest.find('/')?);
    let login = authority.strip_suffix('@').filter(|login| !login.is_empty())?;
    Some((login, &rest[authority.len()..]))
}
