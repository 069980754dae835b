//! Changes to a server that our clients did not request: other libraries, administrators, restarts, failovers.

use super::clock::Time;
use super::server::{FOREIGN, NO_END, Peer, Server};

impl Server {
    /// Another library acquires a free key.
    pub(super) fn foreign(
        &mut self,
        key: &str,
        ttl: Option<u64>,
        now: Time,
    ) -> Vec<(Peer, String)> {
        let expired = self.expire(now);
        let mut pushes = self.changed(&expired, None);
        if !self.keys.contains_key(key) {
            let end = ttl.map_or(NO_END, |ttl| self.clock_us(now) / 1000 + ttl);
            self.keys.insert(key.to_owned(), (FOREIGN.to_owned(), end));
            self.written(None);
            pushes.extend(self.changed(&[key.to_owned()], None));
        }
        pushes
    }

    /// An administrator stores a fencing token that the library would never store.
    pub(super) fn poison(&mut self, key: &str, fence: u64) {
        self.poisoned = true;
        self.keys.insert(key.to_owned(), (fence.to_string(), NO_END));
        self.written(None);
    }

    pub(super) fn lose_data(&mut self) {
        self.keys.clear();
    }

    /// From now on, its replica receives no writes.
    pub(super) fn lag(&mut self) {
        self.replica.get_or_insert_with(|| self.keys.clone());
    }

    /// Puts the replica in the server's place, with the same age and the replica's data. Returns the old server.
    pub(super) fn switch(&mut self, now: Time) -> Self {
        let mut old = self.clone();
        old.replicas.clear();
        if let Some(keys) = self.replica.take() {
            self.keys = keys;
        }
        self.incarnation += 1;
        self.address += 1;
        self.scripts = false;
        self.switched = Some(now);
        self.tracked.clear();
        self.forget_connections();
        self.paused_until = now;
        old
    }

    fn forget_connections(&mut self) {
        self.waits.clear();
        self.wrote.clear();
    }

    pub(super) fn restart(&mut self, now: Time) {
        self.started = now;
        self.scripts = false;
        self.forget_connections();
        self.tracked.clear();
    }

    /// Deletes a key, or flushes. Returns the connections to notify of each key.
    pub(super) fn delete(&mut self, key: Option<&str>) -> Vec<(Peer, String)> {
        let keys: Vec<String> = match key {
            Some(key) => vec![key.to_owned()],
            None => self.keys.keys().cloned().collect(),
        };
        self.keys.retain(|key, _| !keys.contains(key));
        self.written(None);
        self.changed(&keys, None)
    }
}
