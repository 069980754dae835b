//! Determines a client's nodes from environment variables.

use std::env::{self, VarError};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::node::Address;
use crate::telemetry::log;

/// The kind of client that uses the default nodes. It selects the wording of the log message.
#[derive(Clone, Copy)]
pub(crate) enum Asker {
    /// A Rust client.
    FromEnv,
    /// The default client of another language.
    Default,
}

/// Returns the nodes that the environment of this process configures.
pub(crate) fn nodes() -> Result<Vec<String>> {
    named(variable("REDLOCK_NODES")?, variable("REDIS_URL")?, Asker::FromEnv)
}

fn variable(name: &str) -> Result<Option<String>> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        // The value is not shown, because it may contain a password.
        Err(VarError::NotUnicode(_)) => Err(Error::invalid(format!(
            "{name} is not valid UTF-8. It must contain the URLs of the nodes"
        ))),
    }
}

/// Returns the nodes of `REDLOCK_NODES`, otherwise that of `REDIS_URL`, otherwise the local server.
///
/// `REDLOCK_NODES` contains URLs separated by white space, or by commas that a scheme follows. The caller passes the
/// values, because another language may have its own view of the environment. An error names the variable of an invalid
/// URL.
pub(crate) fn named(
    redlock_nodes: Option<String>,
    redis_url: Option<String>,
    asker: Asker,
) -> Result<Vec<String>> {
    // An empty variable counts as unset, because many tools unset variables this way.
    let given = redlock_nodes.filter(|nodes| !nodes.trim().is_empty());
    let Some(given) = given else {
        let url = redis_url.filter(|url| !url.trim().is_empty());
        return checked("REDIS_URL", vec![url.unwrap_or_else(|| local(asker))]);
    };
    let mut nodes: Vec<String> = Vec::new();
    // Removes quotes around the whole value, which a shell would have removed.
    let given = given.trim().trim_matches(['"', '\'']);
    for part in given.split_whitespace().flat_map(|word| word.split(',')) {
        match nodes.last_mut() {
            // A comma without a scheme after it belongs to the previous URL.
            Some(last) if !part.contains("://") && !part.is_empty() => {
                last.push(',');
                last.push_str(part);
            }
            _ if part.is_empty() => {}
            _ => nodes.push(part.to_owned()),
        }
    }
    checked("REDLOCK_NODES", nodes)
}

/// Returns the URLs if they are valid.
fn checked(variable: &str, nodes: Vec<String>) -> Result<Vec<String>> {
    for node in &nodes {
        Address::parse(node).map_err(|error| {
            Error::invalid(format!("the environment variable {variable} is wrong: {error}"))
        })?;
    }
    Ok(nodes)
}

/// Returns the URL of the local server and warns once. In production this is a mistake: every machine would lock for
/// itself only.
fn local(asker: Asker) -> String {
    static SAID: AtomicBool = AtomicBool::new(false);
    const LOCAL: &str = "redis://127.0.0.1:6379";
    if !SAID.swap(true, Ordering::Relaxed) {
        let (unset, who) = match asker {
            Asker::FromEnv => ("", "from_env()"),
            Asker::Default => (", and configure() was not called", "the default client"),
        };
        log::event!(
            Warn,
            Client,
            {},
            "neither REDLOCK_NODES nor REDIS_URL is set{unset}: {who} uses {url}",
            unset = unset,
            who = who,
            url = LOCAL,
        );
    }
    LOCAL.to_owned()
}
