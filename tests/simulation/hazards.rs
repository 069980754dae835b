//! What befalls a server that no client of ours asked of it: other libraries, administrators, restarts, failovers.

use super::clock::Time;
use super::request::Peer;
use super::server::{FOREIGN, NO_END, Server};

impl Server {
    /// Somebody with another library takes a free key.
    pub(super) fn foreign(
        &mut self,
        key: &str,
        ttl: Option<u64>,
        now: Time,
    ) -> Vec<(Peer, String)> {
        let expired = self.expire(now);
        let mut told = self.changed(&expired, None);
        if !self.keys.contains_key(key) {
            let end = ttl.map_or(NO_END, |ttl| self.clock_us(now) / 1000 + ttl);
            self.keys.insert(key.to_owned(), (FOREIGN.to_owned(), end));
            self.written(None);
            told.extend(self.changed(&[key.to_owned()], None));
        }
        told
    }

    /// A fencing token that no rule has made, set by hand.
    pub(super) fn poison(&mut self, key: &str, fence: u64) {
        self.poisoned = true;
        self.fences.insert(key.to_owned(), (fence, NO_END));
        self.written(None);
    }

    pub(super) fn lose_data(&mut self) {
        self.keys.clear();
        self.fences.clear();
    }

    /// From here on its replica gets nothing any more.
    pub(super) fn lag(&mut self) {
        self.replica.get_or_insert_with(|| (self.keys.clone(), self.fences.clone()));
    }

    /// Its replica in its place: as old as it is, and with what it has. Answers the one that it was.
    pub(super) fn switch(&mut self, now: Time) -> Self {
        let mut old = self.clone();
        old.replicas.clear();
        if let Some((keys, fences)) = self.replica.take() {
            (self.keys, self.fences) = (keys, fences);
        }
        self.incarnation += 1;
        self.switched = Some(now);
        self.tracked.clear();
        self.backlog.clear();
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
        self.forget_connections();
        self.tracked.clear();
    }

    /// Deletes by hand, or flushes: whoever tracks the keys is told.
    pub(super) fn delete(&mut self, key: Option<&str>, flush_fences: bool) -> Vec<(Peer, String)> {
        let keys: Vec<String> = match key {
            Some(key) => vec![key.to_owned()],
            None => self.keys.keys().cloned().collect(),
        };
        self.keys.retain(|key, _| !keys.contains(key));
        if flush_fences {
            self.fences.clear();
        }
        self.written(None);
        self.changed(&keys, None)
    }
}
