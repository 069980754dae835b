//! Parses node URLs into the kinds of nodes, and formats them without passwords.
//!
//! This module opens no connection. An error names the violated rule and never quotes the URL, because any part of a
//! malformed URL may contain a password.

use std::borrow::Cow;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::node::{Given, Memory, Parameters, Route, SharedSettings, parse_cluster, parse_service};

/// The valid forms, which end every error.
const SCHEMES: &str = "Use redis://[user:pass@]host[:port][/db], rediss:// for TLS, \
    redis+sentinel://host,host/service, redis+cluster://host,host, unix:///path or memory://[name]";

/// The address of a node, and the login to use there.
#[derive(Clone)]
pub(crate) enum Address {
    /// `memory://`, with or without a name.
    Memory(Memory),
    /// A server, and how to find it.
    Redis(Route),
    /// A Redis Cluster.
    Cluster(Route),
}

impl Address {
    /// Parses the URL. An error names the violated rule.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = &*cleaned(text);
        Self::parse_url(text).map_err(|rule| invalid_url(text, &rule))
    }

    /// Parses the URL. Returns the violated rule as an error.
    fn parse_url(text: &str) -> std::result::Result<Self, String> {
        // The parser of URLs would remove them without an error.
        if text.contains(['\t', '\r', '\n']) {
            return Err(
                "it contains a tab or a line break. Remove it, or write %09, %0D or %0A".into()
            );
        }
        if has_variable(text) {
            let rule = "it contains a variable, ${...}, that was not replaced. Replace it, or write $ in a \
                password as %24";
            return Err(rule.into());
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| no_scheme(text))?;
        misread(scheme, rest).map_or(Ok(()), Err)?;
        match scheme {
            // These characters mean something in other URLs. In this one they have no meaning, so they are a mistake.
            "memory" if rest.contains(['@', '?', '#']) => {
                Err("the name of a memory node cannot contain @, ? or #".into())
            }
            // `memory://` and `memory:///` are the same: a node that only this client uses.
            "memory" => Ok(Self::Memory(Memory::called(rest.trim_end_matches('/')))),
            // The schemes of Valkey are synonyms of those of Redis, and that of Celery is one of `unix`.
            "redis" | "rediss" | "valkey" | "valkeys" | "unix" => {
                Route::to_server(text).map(Self::Redis)
            }
            "redis+socket" => Route::to_server(&format!("unix://{rest}")).map(Self::Redis),
            "redis+sentinel" | "rediss+sentinel" | "valkey+sentinel" | "valkeys+sentinel" => {
                parse_service(text).map(Self::Redis)
            }
            "redis+cluster" | "rediss+cluster" | "valkey+cluster" | "valkeys+cluster" => {
                parse_cluster(text).map(Self::Cluster)
            }
            _ => Err("its scheme is unknown".into()),
        }
    }

    /// Whether the node needs TLS options.
    ///
    /// Their files are only read if a node needs them.
    pub(crate) fn is_tls(&self) -> bool {
        self.route().is_some_and(Route::is_tls)
    }

    /// Whether servers announce their addresses, which `address_map` may change.
    pub(crate) fn is_announced(&self) -> bool {
        self.route().is_some_and(Route::is_announced)
    }

    /// Applies the options that all nodes of a client share.
    pub(crate) fn with(self, shared: &SharedSettings) -> Result<Self> {
        match self {
            Self::Redis(route) => route.with(shared).map(Self::Redis),
            Self::Cluster(route) => route.with(shared).map(Self::Cluster),
            // A node in memory has no connection, so TLS and a client name do not apply.
            memory @ Self::Memory(_) => Ok(memory),
        }
    }

    /// Returns how the servers of the node are found. A node in memory has none.
    fn route(&self) -> Option<&Route> {
        match self {
            Self::Redis(route) | Self::Cluster(route) => Some(route),
            Self::Memory(_) => None,
        }
    }

    /// Returns the parameters of the URL. A node in memory has none.
    fn parameters(&self) -> Option<&Parameters> {
        self.route().map(Route::parameters)
    }

    /// Returns the deadline of one vote, if the URL sets it.
    pub(crate) fn node_timeout(&self) -> Option<&Given<Duration>> {
        self.parameters()?.node_timeout.as_ref()
    }

    /// Returns the time limit of one attempt to connect, if the URL sets it.
    pub(crate) fn connect_timeout(&self) -> Option<&Given<Duration>> {
        self.parameters()?.connect_timeout.as_ref()
    }

    /// Returns the URL without its password. Errors, logs and `repr` show it, and it identifies the node.
    pub(crate) fn shown_url(&self) -> String {
        match self {
            Self::Memory(memory) => memory.url(),
            Self::Redis(route) | Self::Cluster(route) => route.shown_url(),
        }
    }

    /// Returns what identifies the node in a node list: the address and the database, regardless of the login.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Memory(memory) => memory.url(),
            Self::Redis(route) | Self::Cluster(route) => route.identity(),
        }
    }
}

/// Removes the white space and quotes that shells and `docker --env-file` leave around the text. Converts the scheme to
/// lower case.
fn cleaned(text: &str) -> Cow<'_, str> {
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

/// Whether the text contains a variable of a shell or a template, such as `${REDIS_HOST}` or `${PORT:-6379}`.
fn has_variable(text: &str) -> bool {
    let is_name = |inside: &str| {
        let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, default) = inside.split_at(end.unwrap_or(inside.len()));
        !name.is_empty() && (default.is_empty() || default.starts_with([':', '-', '?', '.']))
    };
    text.split("${").skip(1).any(|rest| rest.split_once('}').is_some_and(|(it, _)| is_name(it)))
}

/// Returns what to write instead of a text without a scheme.
fn no_scheme(text: &str) -> &'static str {
    let text = text.to_ascii_lowercase();
    // `host:6380,password=...,ssl=True`, as Azure shows it.
    if [",password=", ",user=", ",ssl=", ",abortconnect="].iter().any(|part| text.contains(part)) {
        return "it has no scheme. It looks like a connection string of StackExchange.Redis. Write \
                redis://:password@host:port, or rediss:// for ssl=True, with = and / in the password as %3D and %2F";
    }
    "it has no scheme. Write redis:// before host and port"
}

/// Detects mistakes that the rules of the scheme would describe misleadingly. Returns the violated rule. `rest` follows
/// the scheme.
fn misread(scheme: &str, rest: &str) -> Option<&'static str> {
    if scheme.starts_with(['"', '\'']) || rest.ends_with(['"', '\'']) {
        return Some("it has a quote at one end. Remove it");
    }
    if rest.contains("://") {
        return Some(
            "it contains several URLs. Pass a list with one URL per node, or separate them by spaces in REDLOCK_NODES",
        );
    }
    // The path of a file may contain an `@`, and so may the value of a parameter.
    let is_socket = matches!(scheme, "unix" | "redis+socket");
    let end = rest.find(['/', '?', '#']).filter(|_| !is_socket)?;
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

/// Builds the error for a URL. It shows only the scheme, because any part of a malformed URL may contain a password.
fn invalid_url(text: &str, rule: &str) -> Error {
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
