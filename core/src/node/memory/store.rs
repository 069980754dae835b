//! What a `memory://` node keeps, and where its clients find it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::clock::{Ahead, Clock, Instant};
use crate::node::Watch;
use crate::per_process::PerProcess;

/// What a server would keep.
#[derive(Default)]
pub(super) struct Store {
    /// Taken for each command as a whole: a command runs alone, as a script does.
    pub(super) keys: Mutex<Keys>,
    /// Taken under the first, never the other way round.
    pub(super) fences: Mutex<HashMap<String, u64>>,
    /// Every client that has used the store. Weak: a client that is gone is told of nothing.
    pub(super) watchers: Mutex<Vec<Weak<Watch>>>,
    /// Whether it answers nobody, as a test wishes.
    pub(super) down: AtomicBool,
    /// Of the clients that have this node alone: a test may have time pass.
    clock: Ahead,
}

/// So many keys, and it is looked whether any of them has expired.
const MANY: usize = 64;

/// The lock keys.
#[derive(Default)]
pub(super) struct Keys {
    entries: HashMap<String, Entry>,
    /// How many were left when it was last looked at all.
    left: usize,
}

impl Keys {
    /// All but these of them that have expired: no command sees one of its own, as on a server.
    pub(super) fn without_expired<'k>(
        &mut self,
        names: impl IntoIterator<Item = &'k String>,
        now: Instant,
    ) -> &mut HashMap<String, Entry> {
        let Self { entries, left } = self;
        for name in names {
            if entries.get(name).is_some_and(|entry| entry.expires <= now) {
                entries.remove(name);
            }
        }
        // Those that nobody asks for any more: looked for rarely, or each command would take as long as there are keys.
        if entries.len() > MANY + 2 * *left {
            entries.retain(|_, entry| entry.expires > now);
            *left = entries.len();
        }
        entries
    }
}

/// One lock key.
pub(super) struct Entry {
    /// Whose it is.
    pub(super) token: String,
    /// By the clock of the client that asks: all clients of a process have the machine's, unless a test gives
    /// another.
    pub(super) expires: Instant,
}

/// Where a client finds what it keeps in memory: by its name in the process, or by itself alone.
#[derive(Clone)]
pub(crate) struct Memory {
    name: String,
    pub(super) store: Arc<Store>,
}

impl Memory {
    /// The store of this name; without one it is whoever's who has this.
    pub(crate) fn called(name: &str) -> Self {
        let store = if name.is_empty() { Arc::default() } else { named(name) };
        Self { name: name.to_owned(), store }
    }

    /// The clock of clients that have this node alone.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.store.clock.clone())
    }

    /// The node's URL.
    pub(crate) fn url(&self) -> String {
        format!("memory://{}", self.name)
    }
}

/// The store of this name, which is made if there is none.
///
/// It lives as long as the process: a new client finds its keys, as it would on a server. A forked child is another
/// process, whose stores begin empty.
fn named(name: &str) -> Arc<Store> {
    static STORES: PerProcess<Mutex<HashMap<String, Arc<Store>>>> = PerProcess::new();
    let stores = STORES.get_or_make(Mutex::default);
    let mut stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(stores.entry(name.to_owned()).or_default())
}

/// Has the node `memory://name` fail every command, or answer again: for tests of programs.
///
/// What was granted stays in it, so that nobody else can have it meanwhile or afterwards.
pub fn fail_memory(name: &str, down: bool) {
    named(name).down.store(down, Ordering::SeqCst);
}

/// Has so much time pass at once for the clients that have the node `memory://name` alone: for tests of programs.
pub fn advance_memory(name: &str, time: Duration) {
    named(name).clock.pass(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_nobody_asks_for_any_more_do_not_pile_up() {
        let (mut keys, mut most) = (Keys::default(), 0);
        for number in 0..10_000_u64 {
            let now = Instant::from_start(Duration::from_millis(number));
            let name = number.to_string();
            let entries = keys.without_expired([&name], now);
            // A hundred are held at a time.
            let expires = now + Duration::from_millis(100);
            entries.insert(name, Entry { token: String::new(), expires });
            most = most.max(entries.len());
        }
        assert!((100..500).contains(&most), "{most}");
        let now = Instant::from_start(Duration::from_secs(20));
        let last = "9999".to_owned();
        assert!(!keys.without_expired([&last], now).contains_key(&last));
    }
}
