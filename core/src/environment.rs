//! Where the nodes of a client come from that the program does not name.

use std::env::{self, VarError};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::log;

/// Who asks for nodes that nobody named: words for the log.
#[derive(Clone, Copy)]
pub(crate) enum Asker {
    /// A client of Rust.
    FromEnv,
    /// The default client of another language.
    Default,
}

/// The nodes that this process's environment names.
pub(crate) fn nodes() -> Result<Vec<String>> {
    Ok(named(variable("REDLOCK_NODES")?, variable("REDIS_URL")?, Asker::FromEnv))
}

fn variable(name: &str) -> Result<Option<String>> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        // Not shown: a password may stand in it.
        Err(VarError::NotUnicode(_)) => {
            Err(Error::invalid(format!("{name} is no text in UTF-8: it must be URLs of nodes")))
        }
    }
}

/// `REDLOCK_NODES` (URLs separated by white space, or by commas followed by a scheme), else `REDIS_URL`, else the
/// local server.
///
/// The variables' values are given: another language may have a view of its environment of its own.
pub(crate) fn named(
    redlock_nodes: Option<String>,
    redis_url: Option<String>,
    asker: Asker,
) -> Vec<String> {
    // Set and empty is not set: that is how many tools unset a variable.
    let given = redlock_nodes.filter(|nodes| !nodes.trim().is_empty());
    let Some(given) = given else {
        let url = redis_url.filter(|url| !url.trim().is_empty());
        return vec![url.unwrap_or_else(|| local(asker))];
    };
    let mut nodes: Vec<String> = Vec::new();
    // Quotes that a shell would have removed may stand around all of them.
    let given = given.trim().trim_matches(['"', '\'']);
    for part in given.split_whitespace().flat_map(|word| word.split(',')) {
        match nodes.last_mut() {
            // A comma that no scheme follows belongs to the URL before it.
            Some(last) if !part.contains("://") && !part.is_empty() => {
                last.push(',');
                last.push_str(part);
            }
            _ if part.is_empty() => {}
            _ => nodes.push(part.to_owned()),
        }
    }
    nodes
}

/// The last resort. In production it is a mistake, by which every machine locks by itself; so it is said, once.
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
