//! `memory://`: a node inside this process, for unit tests and first steps. Full semantics, no server.
//!
//! It answers at once, and forgets with the process. It keeps the scripts' rules, so that a program
//! tested on it meets the same answers from a server; what a wire adds (lateness, faults) is not played, but that a
//! test may have it fail.

mod store;

use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use super::{
    Claim, Extension, Fault, Fencing, Holder, KEPT, Node, Outage, Reply, Taken, Vote, VoteParams,
    Watch,
};
use crate::clock::{Clock, Instant};
pub(crate) use store::Memory;
use store::{Entry, Store};
pub use store::{advance_memory, fail_memory};

/// One store: of a name, shared by every client of the process that names it, or a client's own.
pub(crate) struct MemoryNode {
    url: String,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    watch: Arc<Watch>,
    outage: Outage,
}

impl MemoryNode {
    /// The node over this store.
    pub(crate) fn new(memory: &Memory, clock: Arc<dyn Clock>, watch: Arc<Watch>) -> Self {
        let (url, store) = (memory.url(), Arc::clone(&memory.store));
        let mut watchers = store.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        // Here, as each client comes: the list is as long as there are clients.
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Arc::downgrade(&watch));
        drop(watchers);
        Self { url, store, clock, watch, outage: Outage::default() }
    }

    /// An answer that is there already; nothing is asked of a node that is down.
    fn answer<T: Send + 'static>(&self, command: impl FnOnce() -> T) -> Reply<T> {
        if self.store.down.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(Fault::new("a test has this node fail"))));
        }
        Box::pin(ready(Ok(command())))
    }

    /// Runs one command on these keys, of which those that have expired are gone.
    fn run<'k, T>(
        &self,
        names: impl IntoIterator<Item = &'k String>,
        command: impl FnOnce(&mut HashMap<String, Entry>, Instant) -> T,
    ) -> T {
        let mut keys = self.store.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        command(keys.without_expired(names, now), now)
    }

    /// Of several names the largest decides, and is stored under each, as one lease has one token.
    fn fence(&self, claim: &Claim, fencing: Fencing) -> Option<u64> {
        let mut fences = self.store.fences.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = claim.fences.iter().filter_map(|key| fences.get(key)).max();
        // Nobody writes this map by hand: a fault here would take a clock that is set beyond the year 2255.
        let next = fencing.next(stored.copied().unwrap_or(0), self.clock.wall_micros()).ok()??;
        fences.extend(claim.fences.iter().map(|key| (key.clone(), next)));
        Some(next)
    }

    /// Tells every other client, as a server does; a client's own changes are told by the client itself.
    fn tell(&self, keys: &[String]) {
        // A copy: whoever is told may ask this node at once.
        let watchers = self.store.watchers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for watch in watchers.iter().filter_map(Weak::upgrade) {
            if !Arc::ptr_eq(&watch, &self.watch) {
                watch.changed_keys(keys);
            }
        }
    }
}

impl Node for MemoryNode {
    fn url(&self) -> &str {
        &self.url
    }

    fn outage(&self) -> Option<&Outage> {
        Some(&self.outage)
    }

    fn pushes(&self, _key: &str) -> bool {
        true
    }

    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote> {
        self.answer(|| {
            self.run(&*claim.keys, |keys, now| {
                let entries = claim.keys.iter().enumerate();
                let entries =
                    entries.filter_map(|(at, key)| keys.get(key).map(|entry| (at, entry)));
                // All or none: one foreign key refuses the claim, and the longest lease among them is what to wait
                // for.
                let others = entries.filter(|(_, entry)| *entry.token != *claim.token);
                if let Some(last) = others.clone().map(|(_, entry)| entry.expires).max() {
                    let kept = others.clone().all(|(_, entry)| entry.token.starts_with(KEPT));
                    let taken: Taken = others.map(|(at, _)| at).collect();
                    return Vote::Held(Some(last.since(now)), taken.that_stay(kept));
                }
                for key in claim.keys.iter() {
                    let kept = keys.get(key).map_or(now, |entry| entry.expires);
                    // Never shorter: a second question for the same token must not cut what the first was granted.
                    let expires = kept.max(now + params.ttl);
                    keys.insert(key.clone(), Entry { token: claim.token.to_string(), expires });
                }
                Vote::Granted(self.fence(claim, params.fencing))
            })
        })
    }

    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension> {
        self.answer(|| {
            self.run(&*claim.keys, |keys, now| {
                let is_held = |entry: &&Entry| !entry.token.starts_with(KEPT);
                let owner = |key| keys.get(key).filter(is_held);
                let owners: Vec<_> = claim.keys.iter().map(owner).collect();
                // Taken before missing: somebody else's key is the clearer loss.
                if owners.iter().flatten().any(|entry| *entry.token != *claim.token) {
                    return Extension::Taken;
                }
                if owners.iter().any(Option::is_none) {
                    return Extension::Missing;
                }
                for key in claim.keys.iter() {
                    if let Some(entry) = keys.get_mut(key) {
                        entry.expires = entry.expires.max(now + params.ttl);
                    }
                }
                self.fence(claim, params.fencing);
                Extension::Extended
            })
        })
    }

    fn release(&self, claim: &Claim, _owed: Duration) -> Reply<bool> {
        self.answer(|| {
            let deleted = self.run(&*claim.keys, |keys, _| {
                let ours = |key: &&String| keys.get(*key).is_some_and(|e| *e.token == *claim.token);
                // Only what is ours; of several keys each by itself.
                let deleted: Vec<String> = claim.keys.iter().filter(ours).cloned().collect();
                deleted.iter().for_each(|key| drop(keys.remove(key)));
                deleted
            });
            // After the keys are free, and not under their lock.
            self.tell(&deleted);
            deleted.len() == claim.keys.len()
        })
    }

    fn shorten(&self, claim: &Claim, _owed: Duration, stay: Duration) -> Reply<bool> {
        self.answer(|| {
            let shortened = self.run(&*claim.keys, |keys, now| {
                let mut shortened = Vec::new();
                for key in claim.keys.iter() {
                    if let Some(entry) = keys.get_mut(key).filter(|e| *e.token == *claim.token) {
                        entry.expires = entry.expires.min(now + stay);
                        entry.token = claim.kept();
                        shortened.push(key.clone());
                    }
                }
                shortened
            });
            self.tell(&shortened);
            shortened.len() == claim.keys.len()
        })
    }

    fn inspect(&self, key: &str) -> Reply<Option<Holder>> {
        let key = key.to_owned();
        self.answer(|| {
            self.run([&key], |keys, now| {
                keys.get(&key).map(|entry| Holder {
                    token: entry.token.clone(),
                    remaining: Some(entry.expires.since(now)),
                })
            })
        })
    }

    fn force_release(&self, names: &[String]) -> Reply<bool> {
        self.answer(|| {
            let deleted = self.run(names, |keys, _| {
                names.iter().filter(|key| keys.remove(*key).is_some()).count()
            });
            self.tell(names);
            // A forced delete takes the key from our own leases too, so they are told like anybody's.
            self.watch.changed_keys(names);
            deleted > 0
        })
    }
}
