//! The default client of module-level locks. It is chosen once, at the first use.
//!
//! The client's type differs by language, so it is a type parameter. The rules for choosing it are the same.

use std::sync::Mutex;

use crate::client::builder::named;
use crate::error::{Error, Result};
use crate::runtime::lock;
use crate::telemetry::log;
use crate::text::camel_case;

/// The default client of one language.
pub struct DefaultClient<C>(Mutex<Option<Chosen<C>>>);

struct Chosen<C> {
    /// A handle on the client. Clones are the same client.
    client: C,
    /// Whether locks of this client may be held. Locks of another client would not exclude them.
    used: bool,
}

impl<C: Clone> DefaultClient<C> {
    /// No client is chosen yet.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the default client and marks it as used. Calls `make` if there is none.
    ///
    /// If several threads make a client at the same time, one of them is chosen. `nodes` returns the URLs without
    /// passwords, which are logged once.
    ///
    /// # Errors
    ///
    /// The error of `make`.
    pub fn get<E>(
        &self,
        make: impl FnOnce() -> Result<C, E>,
        nodes: impl FnOnce(&C) -> Vec<String>,
    ) -> Result<C, E> {
        if let Some(chosen) = lock(&self.0).as_mut() {
            chosen.used = true;
            return Ok(chosen.client.clone());
        }
        // Called without the lock, because `make` may take locks of the caller.
        let new = make()?;
        let mut chosen = lock(&self.0);
        let chosen = chosen.get_or_insert_with(|| {
            // Only the chosen client is logged. The others are dropped.
            log_nodes(&nodes(&new));
            Chosen { client: new, used: false }
        });
        chosen.used = true;
        Ok(chosen.client.clone())
    }

    /// Replaces the default client and its used flag, and returns the previous values. For tests.
    pub fn swap(&self, other: Option<(C, bool)>) -> Option<(C, bool)> {
        let other = other.map(|(client, used)| Chosen { client, used });
        let old = std::mem::replace(&mut *lock(&self.0), other);
        old.map(|old| (old.client, old.used))
    }

    /// Sets the default client. Returns the previous one.
    ///
    /// # Errors
    ///
    /// `Invalid` if the previous client was used already, unless `replace` is set.
    pub fn configure(&self, client: C, nodes: &[String], replace: bool) -> Result<Option<C>> {
        let mut chosen = lock(&self.0);
        if chosen.as_ref().is_some_and(|chosen| chosen.used) && !replace {
            let replace = if camel_case() { "{ replace: true }" } else { "replace=True" };
            let text = "the default client is already in use. Call configure() before its first use, or pass";
            return Err(Error::invalid(format!("{text} {replace}")));
        }
        let old = chosen.replace(Chosen { client, used: false });
        drop(chosen);
        log_nodes(nodes);
        Ok(old.map(|old| old.client))
    }
}

impl<C: Clone> Default for DefaultClient<C> {
    fn default() -> Self {
        Self::new()
    }
}

/// Logs the nodes, which helps to find out why locks do not exclude each other.
fn log_nodes(nodes: &[String]) {
    log::event!(Info, Client, {}, "the default client's nodes: {nodes}", nodes = nodes.join(" "));
}

/// The nodes of the default client, according to these environment variables.
///
/// # Errors
///
/// `Invalid` if a URL breaks a rule. The error names the variable.
pub fn default_nodes(
    redlock_nodes: Option<String>,
    redis_url: Option<String>,
) -> Result<Vec<String>> {
    named(redlock_nodes, redis_url, "the default client (configure() was not called)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn get(default: &DefaultClient<&'static str>, made: &'static str) -> &'static str {
        default.get(|| Ok::<_, ()>(made), |client| vec![(*client).to_owned()]).unwrap()
    }

    #[test]
    fn set_once_and_replaced_only_on_demand() {
        let default = DefaultClient::new();
        assert_eq!(default.configure("first", &[], false).unwrap(), None);
        assert_eq!(default.configure("second", &[], false).unwrap(), Some("first"));
        assert_eq!(get(&default, "made"), "second");
        let error = default.configure("third", &[], false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(default.configure("third", &[], true).unwrap(), Some("second"));
        // The replacement was not used yet.
        assert_eq!(default.configure("fourth", &[], false).unwrap(), Some("third"));
        assert_eq!(get(&default, "made"), "fourth");
    }

    #[test]
    fn first_use_creates_a_default() {
        let default = DefaultClient::new();
        assert_eq!(default.get(|| Err("no nodes"), |_| Vec::new()), Err("no nodes"));
        assert_eq!(get(&default, "made"), "made");
        assert_eq!(get(&default, "again"), "made");
        default.configure("late", &[], false).unwrap_err();
    }
}
