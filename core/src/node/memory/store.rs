//! What a `memory://` node keeps, and where its clients find it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use crate::clock::{Ahead, Clock, Instant};
use crate::node::Watch;

/// What a server would keep.
#[derive(Default)]
pub(super) struct Store {
    /// Taken for each command as a whole: a command runs alone, as a script does.
    pub(super) keys: Mutex<HashMap<String, Entry>>,
    /// Taken under the first, never the other way round.
    pub(super) fences: Mutex<HashMap<String, u64>>,
    /// Every client that has used the store. Weak: a client that is gone is told of nothing.
    pub(super) watchers: Mutex<Vec<Weak<Watch>>>,
    /// Whether it answers nobody, as a test wishes.
    pub(super) down: AtomicBool,
    /// Of the clients that have this node alone: a test may have time pass.
    clock: Ahead,
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
/// It lives as long as the process: a client that is made anew finds its keys, as it would on a server.
fn named(name: &str) -> Arc<Store> {
    static STORES: OnceLock<Mutex<HashMap<String, Arc<Store>>>> = OnceLock::new();
    let stores = STORES.get_or_init(Mutex::default);
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
pub fn pass_memory_time(name: &str, time: Duration) {
    named(name).clock.pass(time);
}
