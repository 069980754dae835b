//! Node URLs: what they may say, and how they are written without their password.

use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo};
use url::Url;

use crate::error::{Error, Result};

/// Where a node is, and as whom to go there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Memory(String),
    Server(Server),
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(super) place: Place,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

const SCHEMES: &str = "use redis://[user:pass@]host[:port][/db], unix:///path or memory://[name]";

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(invalid(text, "it has no scheme"));
        };
        match scheme {
            "memory" => Ok(Self::Memory(rest.trim_end_matches('/').to_owned())),
            "redis" | "valkey" | "unix" => Server::parse(text).map(Self::Server),
            "rediss" | "valkeys" => Err(invalid(text, "TLS is not supported yet")),
            "redis+sentinel" | "redis+cluster" => {
                Err(invalid(text, "Sentinel and Cluster are not supported yet"))
            }
            _ => Err(invalid(text, "its scheme is unknown")),
        }
    }

    /// The URL without its password: what errors, logs and `repr` show, and what tells two nodes apart.
    pub(crate) fn redacted(&self) -> String {
        match self {
            Self::Memory(name) => format!("memory://{name}"),
            Self::Server(server) => server.redacted(),
        }
    }

    /// What makes two entries of a node list one node: the place and the database, whoever logs in.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Memory(name) => format!("memory://{name}"),
            Self::Server(server) => format!("{}/{}", server.place(), server.db),
        }
    }
}

impl Server {
    fn parse(text: &str) -> Result<Self> {
        let url = Url::parse(text).map_err(|error| invalid(text, &error.to_string()))?;
        let unknown =
            |key: &str| !(url.scheme() == "unix" && matches!(key, "db" | "user" | "pass"));
        if let Some((key, _)) = url.query_pairs().find(|(key, _)| unknown(key)) {
            return Err(invalid(text, &format!("the parameter {key:?} is unknown")));
        }
        if url.scheme() != "unix" && url.host_str().is_none_or(str::is_empty) {
            return Err(invalid(text, "it names no host"));
        }
        let info = url
            .into_connection_info()
            .map_err(|_| invalid(text, "the path after the host must be a database number"))?;
        let settings = info.redis_settings();
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                Place::Tcp(host.trim_matches(['[', ']']).to_owned(), *port)
            }
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            _ => return Err(invalid(text, "its kind of connection is not supported")),
        };
        Ok(Self {
            place,
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
        })
    }

    fn place(&self) -> String {
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => format!("redis://[{host}]:{port}"),
            Place::Tcp(host, port) => format!("redis://{host}:{port}"),
            Place::Unix(path) => format!("unix://{}", path.display()),
        }
    }

    fn redacted(&self) -> String {
        match self.db {
            0 => self.place(),
            db => format!("{}/{db}", self.place()),
        }
    }
}

fn invalid(text: &str, rule: &str) -> Error {
    Error::invalid(format!("node {}: {rule}; {SCHEMES}", hide_password(text)))
}

/// For text that is no URL we understand, all between the scheme and the last `@` may be a secret.
fn hide_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let shown = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let shown = shown.split_once('?').map_or(shown, |(place, _)| place);
    if scheme.is_empty() { format!("{shown:?}") } else { format!("\"{scheme}://{shown}\"") }
}
