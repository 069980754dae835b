//! Where the default client's nodes come from.
//!
//! The environment itself is read by the bindings: a language may have a view of it of its own.

use std::sync::Once;

use crate::error::Result;
use crate::log;

/// The default client's nodes: `REDLOCK_NODES` (URLs separated by white space, or by commas followed by a scheme),
/// else `REDIS_URL`, else the local server.
pub fn default_nodes(
    redlock_nodes: Option<String>,
    redis_url: Option<String>,
) -> Result<Vec<String>> {
    // Set and empty is not set: that is how many tools unset a variable.
    let given = redlock_nodes.filter(|nodes| !nodes.trim().is_empty());
    let Some(given) = given else {
        let url = redis_url.filter(|url| !url.trim().is_empty());
        return Ok(vec![url.unwrap_or_else(local)]);
    };
    let mut nodes: Vec<String> = Vec::new();
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
    Ok(nodes)
}

/// The last resort. In production it is a mistake, by which every machine locks by itself; so it is said, once.
fn local() -> String {
    static SAID: Once = Once::new();
    const LOCAL: &str = "redis://127.0.0.1:6379";
    SAID.call_once(|| {
        log::event!(
            WARN, {},
            "neither REDLOCK_NODES nor REDIS_URL is set, and configure() was not called: the default client uses {url}",
            url = LOCAL,
        );
    });
    LOCAL.to_owned()
}
