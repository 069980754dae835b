//! Stores the data of `memory://` nodes, and finds a store by its name.
//!
//! One thread at a time is inside a store. A thread that finds another one there leaves its command to it, because that
//! thread may be suspended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::sides::Turns;
use crate::clock::stepping::advance_in_background;
use crate::clock::{Clock, Instant, OffsetClock};
use crate::node::{KEPT_PREFIX, SHARED_PREFIX, Watch};
use crate::runtime::{Exclusive, PerProcess, Visitor, lock, poll_next};

/// A command. It runs alone, as a script does.
pub(super) type StoreCommand = Box<dyn FnOnce(&mut Data) + Send>;

/// The data that a server would store, and the commands on it.
pub(super) struct Store {
    data: Exclusive<Data>,
    commands: UnboundedSender<StoreCommand>,
    /// Whether a test has disabled the node.
    pub(super) down: AtomicBool,
    /// The clock of clients whose only node is this one. A test can advance it.
    clock: OffsetClock,
}

impl Default for Store {
    fn default() -> Self {
        let (sender, commands) = unbounded_channel();
        let (keys, fences, turns, watchers, pending_deletes) = Default::default();
        let data =
            Exclusive::new(Data { keys, fences, turns, watchers, pending_deletes, commands });
        Self { data, commands: sender, down: AtomicBool::default(), clock: OffsetClock::default() }
    }
}

impl Store {
    /// Runs a command after all earlier ones. If another thread is inside, that thread runs it.
    pub(super) fn run(&self, command: impl FnOnce(&mut Data) + Send + 'static) {
        // Cannot fail, because the store has the receiver.
        let _ = self.commands.send(Box::new(command));
        while let Some(((), others)) = self.data.try_with(Visitor::Thread, Data::run_all)
            && others.include(Visitor::Thread)
        {}
    }

    /// Waits until the commands that it has received were run.
    async fn flushed(&self) {
        let (done, seen) = oneshot::channel::<()>();
        self.run(move |_| drop(done));
        let _ = seen.await;
    }
}

pub(super) struct Data {
    pub(super) keys: Keys,
    pub(super) fences: HashMap<String, u64>,
    pub(super) turns: Turns,
    /// Every client that has used the store. Weak, so that dropped clients get no notifications.
    pub(super) watchers: Vec<Weak<Watch>>,
    /// Deletes that failed because a test has disabled the node. Each is of a key that was held.
    pub(super) pending_deletes: Vec<StoreCommand>,
    /// The commands that have not run yet.
    commands: UnboundedReceiver<StoreCommand>,
}

impl Data {
    fn run_all(&mut self) {
        // A thread that adds a command at this moment visits the store afterwards.
        while let Poll::Ready(Some(command)) = poll_next(&mut self.commands) {
            command(self);
        }
    }
}

/// The number of keys above which expired ones are removed.
const MANY_KEYS: usize = 64;

/// The lock keys.
#[derive(Default)]
pub(super) struct Keys {
    entries: HashMap<String, StoredKey>,
    /// The number of keys after the last removal of all expired ones.
    left: usize,
}

impl Keys {
    /// Returns the keys after removing those of `names` that have expired. A command never sees an expired key, as on a
    /// server.
    pub(super) fn without_expired<'k>(
        &mut self,
        names: impl IntoIterator<Item = &'k String>,
        now: Instant,
    ) -> &mut HashMap<String, StoredKey> {
        let Self { entries, left } = self;
        for name in names {
            if entries.get(name).is_some_and(|entry| entry.expires <= now) {
                entries.remove(name);
            }
        }
        // Removes the expired keys that no command uses. Rarely done, because otherwise each command would take time
        // proportional to the number of keys.
        if entries.len() > MANY_KEYS + 2 * *left {
            entries.retain(|_, entry| entry.expires > now);
            *left = entries.len();
        }
        entries
    }
}

pub(super) struct StoredKey {
    /// The token of its owner.
    pub(super) token: String,
    /// By the clock of the client. All clients of a process use the same clock, unless a test sets another one.
    pub(super) expires: Instant,
    /// Those that share the key. A key that is gone has none.
    pub(super) readers: Vec<StoredReader>,
}

pub(super) struct StoredReader {
    pub(super) token: Arc<str>,
    pub(super) expires: Instant,
}

impl StoredKey {
    pub(super) fn new(token: String, expires: Instant) -> Self {
        Self { token, expires, readers: Vec::new() }
    }

    /// Whether it was released and remains for `min_hold`.
    pub(super) fn is_kept(&self) -> bool {
        self.token.starts_with(KEPT_PREFIX)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.token.starts_with(SHARED_PREFIX)
    }

    pub(super) fn reader(&self, token: &str) -> Option<&StoredReader> {
        self.readers.iter().find(|reader| *reader.token == *token)
    }

    /// Whether the token is that of the owner or of a reader.
    pub(super) fn has(&self, token: &str) -> bool {
        *self.token == *token || self.reader(token).is_some()
    }
}

/// The store of a `memory://` URL: shared by name within the process, or used by one client only.
///
/// A forked child starts with empty stores, as its parent's threads may be inside those of the parent.
#[derive(Clone)]
pub(crate) struct Memory {
    name: String,
    /// The store without a name.
    own: Arc<PerProcess<Arc<Store>>>,
}

impl Memory {
    /// Returns the store with this name. Without a name, creates a separate store.
    pub(crate) fn called(name: &str) -> Self {
        Self { name: name.to_owned(), own: Arc::default() }
    }

    /// Returns the store of this process.
    pub(super) fn store(&self) -> Arc<Store> {
        if self.name.is_empty() {
            Arc::clone(&self.own.get_or_make(Arc::default))
        } else {
            named(&self.name)
        }
    }

    /// Returns the clock of clients whose only node is this one.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.store().clock.clone())
    }

    /// Returns the URL of the node.
    pub(crate) fn url(&self) -> String {
        format!("memory://{}", self.name)
    }
}

/// Returns the store with this name, and creates it if necessary.
///
/// It exists as long as the process, so a new client finds its keys, as on a server.
fn named(name: &str) -> Arc<Store> {
    static STORES: PerProcess<Mutex<HashMap<String, Arc<Store>>>> = PerProcess::new();
    let stores = STORES.get_or_make(Mutex::default);
    let mut stores = lock(&stores);
    Arc::clone(stores.entry(name.to_owned()).or_default())
}

/// Makes the node `memory://name` fail every command, or reply again. For tests of programs.
///
/// The data remains, so a granted lock stays held. Keys that were released meanwhile are deleted when it replies again.
pub fn fail_memory(name: &str, down: bool) {
    let store = named(name);
    store.down.store(down, Ordering::SeqCst);
    if !down {
        store.run(|data| {
            for delete in std::mem::take(&mut data.pending_deletes) {
                delete(data);
            }
        });
    }
}

/// Advances the clock of the clients whose only node is `memory://name`. For tests of programs.
pub fn advance_memory(name: &str, time: Duration) {
    named(name).clock.advance(time);
}

/// Advances the clock of the clients whose only node is `memory://name`, from one deadline to the next. For tests of
/// programs.
///
/// Renewals are sent on the way, waits end when they are over, and leases that are not renewed expire.
pub fn step_memory(
    name: &str,
    time: Duration,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let store = named(name);
    async move {
        let clock = store.clock.clone();
        let flushed = move || {
            let store = Arc::clone(&store);
            async move { store.flushed().await }
        };
        advance_in_background(clock, time, flushed).await;
    }
}

/// Waits until the node `memory://name` has run the commands that it has received.
#[cfg(feature = "testing")]
pub(crate) async fn flush_memory(name: &str) {
    named(name).flushed().await;
}

#[cfg(test)]
mod tests {
    use std::thread::yield_now;

    use futures_util::FutureExt;

    use super::*;
    use crate::client::Redlock;
    use crate::clock::SystemClock;
    use crate::lease::LeaseHandle;
    use crate::runtime::background;

    fn acquired(url: &str) -> LeaseHandle {
        let client = Redlock::builder([url]).build().unwrap();
        let lock = client.lock("job").ttl(Duration::from_secs(60));
        lock.acquire_blocking().unwrap().into_handle()
    }

    fn until(condition: impl Fn() -> bool) {
        let end = SystemClock.now() + Duration::from_secs(30);
        while !condition() {
            assert!(SystemClock.now() < end);
            yield_now();
        }
    }

    #[test]
    fn a_flush_includes_the_commands_left_to_a_suspended_thread() {
        let store = Arc::new(Store::default());
        let (ran, inside) = (Arc::new(AtomicBool::default()), Arc::clone(&store));
        let (left, flush) = (Arc::clone(&ran), Arc::clone(&store));
        store.run(move |data| {
            inside.run(move |_| left.store(true, Ordering::SeqCst));
            assert_eq!(data.commands.len(), 1);
            assert!(flush.flushed().now_or_never().is_none());
            // Both are run when this thread leaves the store.
            assert_eq!(data.commands.len(), 2);
        });
        assert!(ran.load(Ordering::SeqCst));
        assert!(store.flushed().now_or_never().is_some());
    }

    /// Ends when this advance has sent a command to the node, whose store this thread does not leave.
    fn until_flushed(node: &str, advance: impl Future<Output = ()> + Send + 'static) {
        named(node).run(|data| {
            let _advance = background::observe(advance);
            until(|| !data.commands.is_empty());
        });
    }

    #[test]
    fn an_advance_flushes_its_nodes() {
        until_flushed("stepped", step_memory("stepped", Duration::from_secs(1)));
        #[cfg(feature = "testing")]
        {
            let clock = crate::testing::TestClock::new();
            let redlock = crate::testing::TestRedlock::with_clock(&clock).unwrap();
            let node = redlock.nodes()[0].replace("memory://", "");
            let advance = clock.clone();
            until_flushed(&node, async move { advance.advance(Duration::from_secs(1)).await });
        }
    }

    #[test]
    fn suspended_thread_stops_no_renewal_at_another_store() {
        let [suspended, other] = ["memory://suspended", "memory://other"].map(acquired);
        let is_renewed = |lease: &LeaseHandle| lease.remaining() > lease.ttl() * 3 / 4;
        let waiting = suspended.clone();
        // This thread is inside the store as long as this command runs.
        named("suspended").run(move |data| {
            advance_memory("suspended", waiting.ttl() / 2);
            // The background thread leaves the renewal to this thread, and continues.
            until(|| !data.commands.is_empty());
            advance_memory("other", other.ttl() / 2);
            until(|| is_renewed(&other));
            assert!(!is_renewed(&waiting));
        });
        until(|| is_renewed(&suspended));
    }

    #[test]
    fn expired_keys_do_not_accumulate() {
        let (mut keys, mut most) = (Keys::default(), 0);
        for number in 0..10_000_u64 {
            let now = Instant::from_start(Duration::from_millis(number));
            let name = number.to_string();
            let entries = keys.without_expired([&name], now);
            // About a hundred keys are live at a time.
            let expires = now + Duration::from_millis(100);
            entries.insert(name, StoredKey::new(String::new(), expires));
            most = most.max(entries.len());
        }
        assert!((100..500).contains(&most), "{most}");
        let now = Instant::from_start(Duration::from_secs(20));
        let last = "9999".to_owned();
        assert!(!keys.without_expired([&last], now).contains_key(&last));
    }
}
