//! Parses the parameters of a node URL, which include those of other clients.
//!
//! One table contains the supported parameters with their rules, another one the unsupported parameters with their
//! replacements. Errors quote a name only if it is in a table, and never a value. Both may be part of a password.

use std::time::Duration;

use url::form_urlencoded;

use crate::node::redis::io::endpoint::{Given, Parameters};
use crate::text::spelled;

/// The name of connections if none is configured.
pub(crate) const CLIENT_NAME: &str = "redlock";

/// The rule for the name of connections, for error messages.
pub(crate) const CLIENT_NAME_RULE: &str =
    "must be 1 to 255 printable ASCII characters without spaces";

/// Whether a server accepts the name. Redis refuses other characters, and a line break could forge a log line.
pub(crate) fn is_client_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A supported parameter: its names in several clients, the rule for its value, and how to set it.
type Row = (&'static [&'static str], &'static str, fn(&mut Parameters, &'static str, &str) -> Set);

enum Set {
    Done,
    Wrong,
    Twice,
}

const TIME_RULE: &str = "must be a time above 0 and at most ten years";
/// The same limit as for the other time options.
const MAX_PARAMETER_TIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const PATH: &str = "must be the path of a PEM file";

/// The supported parameters of redis-py and celery, go-redis, ioredis, lettuce and the redis crate.
const UNDERSTOOD: &[Row] = &[
    (&["db", "database", "virtual_host"], "must be a number, 0 or more", |to, _, value| {
        fill(&mut to.db, value.parse().ok().filter(|db| *db >= 0))
    }),
    (&["username", "user"], "must be a name", |to, _, value| {
        fill(&mut to.username, Some(value.to_owned()))
    }),
    (&["password", "pass"], "must be a password", |to, _, value| {
        fill(&mut to.password, Some(value.to_owned()))
    }),
    (&["protocol"], "must be 2 or 3", |to, _, value| {
        let version = value.strip_prefix("resp").unwrap_or(value);
        fill(&mut to.protocol, version.parse().ok().filter(|version| matches!(version, 2 | 3)))
    }),
    (&["family"], "must be 4, 6 or 0", |to, _, value| {
        fill(&mut to.family, value.parse().ok().filter(|family| matches!(family, 0 | 4 | 6)))
    }),
    (&["client_name", "clientName", "connectionName"], CLIENT_NAME_RULE, |to, by, value| {
        let name = is_client_name(value).then(|| value.to_owned());
        fill(&mut to.client_name, name.map(|value| Given { value, by }))
    }),
    (&["socket_timeout", "read_timeout", "commandTimeout"], TIME_RULE, |to, by, value| {
        fill(&mut to.node_timeout, time(by, value).map(|value| Given { value, by }))
    }),
    (&["socket_connect_timeout", "dial_timeout", "connectTimeout"], TIME_RULE, |to, by, value| {
        fill(&mut to.connect_timeout, time(by, value).map(|value| Given { value, by }))
    }),
    (&["socket_keepalive"], "must be true, because TCP keepalive is always on", |_, _, value| {
        if yes(value) == Some(true) { Set::Done } else { Set::Wrong }
    }),
    (&["ssl_ca_certs"], PATH, |to, _, value| fill(&mut to.tls.ca, Some(value.into()))),
    (&["ssl_certfile"], PATH, |to, _, value| fill(&mut to.tls.cert, Some(value.into()))),
    (&["ssl_keyfile"], PATH, |to, _, value| fill(&mut to.tls.key, Some(value.into()))),
    (&["ssl_cert_reqs"], "must be required or none", |to, _, value| {
        let value = value.to_ascii_lowercase();
        let verify = match value.strip_prefix("cert_").unwrap_or(&value) {
            // For a server's certificate, which is always sent, "optional" has the same effect.
            "required" | "optional" => Some(true),
            "none" => Some(false),
            _ => None,
        };
        fill(&mut to.tls.verify, verify)
    }),
    (&["skip_verify"], "must be true or false", |to, _, value| {
        fill(&mut to.tls.verify, yes(value).map(|skip| !skip))
    }),
    (
        &["ssl_check_hostname"],
        "must be true. If the certificate is for another name, set tls_server_name",
        |_, _, value| if yes(value) == Some(true) { Set::Done } else { Set::Wrong },
    ),
];

const ONE: &str = "There is no connection pool. Remove it";
const ALIVE: &str = "Dead connections are detected automatically. Remove it";
const RETRY_HINT: &str = "Failed attempts are retried within wait. Remove it";
const BYTES: &str = "No values are read. Remove it";

/// The unsupported parameters. Ignoring them would suggest that they have an effect.
const INSTEAD: &[(&[&str], &str)] = &[
    (&["max_connections", "pool_size", "pool_timeout", "min_idle_conns"], ONE),
    (&["health_check_interval", "keepAlive", "idle_timeout"], ALIVE),
    (&["retry_on_timeout", "retry_on_error", "max_retries", "maxRetriesPerRequest"], RETRY_HINT),
    (&["decode_responses", "encoding", "encoding_errors", "charset", "errors"], BYTES),
    (&["ssl", "tls"], "Write rediss:// instead of redis://"),
    (&["ssl_ca_path", "ssl_ca_data"], "Use ssl_ca_certs, the path of a PEM file"),
    (&["verifyPeer"], "Use ssl_cert_reqs=none, or remove it"),
    (&["timeout", "write_timeout", "socket_read_timeout"], "Use socket_timeout, in seconds"),
    (&["lib_name", "libraryName", "libraryVersion", "lib_version"], "Use client_name"),
    (&["allowUsernameInURI"], "A user in a URL is always used. Remove it"),
    (&["key_prefix", "keyPrefix"], "Set it as an option of the client, for all nodes"),
    (&["addr"], "List every server as a separate node"),
    (&["sentinelMasterId", "master_name"], "Write redis+sentinel://host:port/service"),
    (
        &["sentinel_username", "sentinel_password", "sentinel_tls"],
        "It is only for redis+sentinel://host:port/service. Remove it",
    ),
];

/// Parses a query without its `?`. Returns the violated rule as an error.
pub(crate) fn parse_query(query: &str) -> Result<Parameters, String> {
    let mut found = Parameters::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let known = UNDERSTOOD.iter().find_map(|(names, rule, set)| {
            names.iter().find(|known| **known == name).map(|known| (*known, rule, set))
        });
        let Some((known, rule, set)) = known else { return Err(unknown(&name)) };
        if value.is_empty() {
            return Err(format!("its parameter {known} is empty. Remove it"));
        }
        match set(&mut found, known, &value) {
            Set::Done => {}
            Set::Wrong => {
                let rule = rule.replace("tls_server_name", &spelled("tls_server_name"));
                return Err(format!("its parameter {known} {rule}"));
            }
            Set::Twice => {
                return Err(format!("its parameter {known} repeats another parameter"));
            }
        }
        // Without TLS these would have no effect.
        let needs_tls = known.starts_with("ssl_") || known == "skip_verify";
        found.tls_by = found.tls_by.or(needs_tls.then_some(known));
    }
    Ok(found)
}

/// Returns why a parameter is refused: its replacement, or the supported parameters. Its value is not shown, because it
/// may be a secret.
fn unknown(name: &str) -> String {
    for (names, instead) in INSTEAD {
        if let Some(known) = names.iter().find(|known| **known == name) {
            return format!("its parameter {known} is not supported. {instead}");
        }
    }
    let understood: Vec<&str> = UNDERSTOOD.iter().map(|(names, ..)| names[0]).collect();
    let understood = understood.join(", ");
    format!(
        "a parameter after the ? is unknown (write ? in a password as %3F). Known parameters are {understood}"
    )
}

/// Sets a value. A second one is an error, because it is ambiguous.
fn fill<T>(slot: &mut Option<T>, value: Option<T>) -> Set {
    match (slot.is_some(), value) {
        (_, None) => Set::Wrong,
        (true, _) => Set::Twice,
        (false, value) => {
            *slot = value;
            Set::Done
        }
    }
}

/// Parses a boolean like go-redis and redis-py.
pub(super) fn yes(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

/// Parses the time in a parameter: a number, or a number with a unit such as `500ms`. The camel-case parameters are
/// those of Node.js clients, in milliseconds. All others are in seconds.
fn time(by: &str, value: &str) -> Option<Duration> {
    let unit = if by.contains(char::is_uppercase) { 1e-3 } else { 1.0 };
    let units = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let given = units.iter().find_map(|(name, unit)| Some((value.strip_suffix(name)?, *unit)));
    let (number, unit) = given.unwrap_or((value, unit));
    let seconds = number.parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero() && *time <= MAX_PARAMETER_TIME)
}
