//! Implements `memory://`, a node inside this process for unit tests and first steps.
//!
//! It replies immediately, and its data ends with the process. It follows the rules of the scripts, so a program gets
//! the same results as from a server. It does not simulate delays or network errors, but a test can make it fail.
//! Deletes that fail are pending until it replies again, as those of a server without a connection.

mod sides;
mod store;

use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::{
    Blocker, Claim, Extension, Fault, Fencing, Form, Holder, Label, Node, Outage, Places, Refused,
    ReleaseMode, Reply, Vote, VoteParams, Watch,
};
use crate::clock::{Clock, Instant};
use crate::runtime::lock;
pub(crate) use store::Memory;
#[cfg(feature = "testing")]
pub(crate) use store::flush_memory;
use store::{Data, Store, StoredKey};
pub use store::{advance_memory, fail_memory, step_memory};

/// A node with one store. A named store is shared by every client of the process that uses the name. An unnamed one
/// belongs to a single client.
pub(crate) struct MemoryNode {
    url: String,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    watch: Arc<Watch>,
    outage: Outage,
    /// Until when keys with a pending delete can live.
    pending_until: Arc<Mutex<Option<Instant>>>,
}

impl MemoryNode {
    /// Creates a node for this store.
    pub(crate) fn new(memory: &Memory, clock: Arc<dyn Clock>, watch: Arc<Watch>) -> Self {
        let (url, store) = (memory.url(), memory.store());
        let watcher = Arc::downgrade(&watch);
        store.run(|data| {
            // Removes dropped clients whenever a new one is added, so that the list does not grow.
            data.watchers.retain(|watcher| watcher.strong_count() > 0);
            data.watchers.push(watcher);
        });
        let (outage, pending_until) = Default::default();
        Self { url, store, clock, watch, outage, pending_until }
    }

    /// Runs one command. A node that a test has disabled runs none.
    fn run<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Data, &dyn Clock) -> T + Send + 'static,
    ) -> Reply<T> {
        if self.store.down.load(Ordering::SeqCst) {
            return failed();
        }
        let (clock, (answer, reply)) = (Arc::clone(&self.clock), oneshot::channel());
        self.store.run(move |data| {
            // Nothing happens if the caller no longer waits.
            let _ = answer.send(command(data, &*clock));
        });
        Box::pin(reply.map(|done| done.map_err(|_| Fault::new("the command panicked"))))
    }
}

fn failed<T: Send + 'static>() -> Reply<T> {
    Box::pin(ready(Err(Fault::new("a test has this node fail"))))
}

/// Returns why the keys cannot be acquired, if others have some of them.
fn refused(keys: &HashMap<String, StoredKey>, claim: &Claim, now: Instant) -> Option<Refused> {
    let entries = claim.places().iter().enumerate();
    let entries = entries.filter_map(|(at, key)| keys.get(key).map(|entry| (at, entry)));
    let mut others: Vec<_> = entries.filter(|(_, entry)| *entry.token != *claim.token).collect();
    let taken: Places = others.iter().map(|(at, _)| *at).collect();
    others.sort_by_key(|(_, entry)| entry.expires);
    // All or none: a single key of another owner refuses the claim. It must wait for this many of them.
    let missing = match &claim.form {
        Form::Keys | Form::Read(_) | Form::Write(_) => others.len(),
        Form::Slots(slots) if slots.chosen.iter().any(|at| taken.has(*at)) => {
            (slots.chosen.len() + others.len()).saturating_sub(slots.all.len())
        }
        Form::Slots(_) => return None,
    };
    let (_, last) = others.get(missing.saturating_sub(1))?;
    let (by, holder) = refused_by(last);
    let is_kept = others.iter().all(|(_, entry)| entry.is_kept());
    Some(Refused {
        left: Some(if missing == 0 { Duration::ZERO } else { last.expires.since(now) }),
        taken,
        by: if by == Blocker::Readers || is_kept { by } else { Blocker::Owner },
        holder: holder.filter(|_| missing > 0),
    })
}

/// Returns what has the key of this entry, and the label of its owner.
fn refused_by(entry: &StoredKey) -> (Blocker, Option<Label>) {
    let by = if entry.is_kept() {
        Blocker::Kept
    } else if entry.is_shared() {
        Blocker::Readers
    } else {
        Blocker::Owner
    };
    (by, Label::of_token(&entry.token))
}

/// Deletes each key that the claim still owns, or lets it stay for a while. Returns whether that were all its keys.
fn delete(
    data: &mut Data,
    claim: &Claim,
    how: ReleaseMode,
    now: Instant,
    own: &Arc<Watch>,
) -> bool {
    let keys = data.keys.without_expired(&*claim.keys, now);
    let ours = |key: &&String| keys.get(*key).is_some_and(|e| *e.token == *claim.token);
    let mut released: Vec<String> = claim.keys.iter().filter(ours).cloned().collect();
    for key in &released {
        let entry = keys.remove(key);
        if let (ReleaseMode::Stay { time, lengthens }, Some(StoredKey { expires, .. })) =
            (how, entry)
        {
            let end = now + time;
            let end = if lengthens { end } else { expires.min(end) };
            keys.insert(key.clone(), StoredKey::new(claim.kept(), end));
        }
    }
    if matches!(claim.form, Form::Read(_)) && sides::release_read(data, claim, now) {
        released.extend(claim.keys.iter().cloned());
    }
    // Notifies every other client, as a server does. A client handles its own changes itself. A notified client may
    // call this node immediately. Its command then follows this one.
    let watchers = data.watchers.iter().filter_map(Weak::upgrade);
    let others = watchers.filter(|watch| !Arc::ptr_eq(watch, own));
    others.for_each(|watch| watch.changed_keys(&released));
    released.len() == claim.keys.len()
}

/// Stores the next fencing token. With several names, the largest stored token decides, and all names get the new one,
/// because a lease has a single token.
fn fence(data: &mut Data, claim: &Claim, fencing: Fencing, clock: &dyn Clock) -> Option<u64> {
    let stored = claim.fences.iter().filter_map(|key| data.fences.get(key)).max();
    // The map cannot contain foreign values. An error would require a clock that is set beyond the year 2255.
    let next = fencing.next(stored.copied().unwrap_or(0), clock.wall_micros()).ok()??;
    data.fences.extend(claim.fences.iter().map(|key| (key.clone(), next)));
    Some(next)
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
        let claim = claim.clone();
        self.run(move |data, clock| {
            let now = clock.now();
            let by_side = match &claim.form {
                Form::Read(sides) => {
                    let refused = sides::acquire_read(data, &claim, sides, params, now);
                    return refused.map_or(Vote::Granted(None), |why| Vote::Held(Box::new(why)));
                }
                Form::Write(sides) => sides::before_write(data, &claim, sides, params, now),
                Form::Keys | Form::Slots(_) => None,
            };
            let keys = data.keys.without_expired(claim.places(), now);
            if let Some(refused) = by_side.or_else(|| refused(keys, &claim, now)) {
                return Vote::Held(Box::new(refused));
            }
            for key in claim.keys.iter() {
                let kept = keys.get(key).map_or(now, |entry| entry.expires);
                // Never shortened: a second command for the same token must not reduce the time that the first one
                // granted.
                let expires = kept.max(now + params.ttl);
                keys.insert(key.clone(), StoredKey::new(claim.token.to_string(), expires));
            }
            Vote::Granted(fence(data, &claim, params.fencing, clock))
        })
    }

    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension> {
        let claim = claim.clone();
        self.run(move |data, clock| {
            let now = clock.now();
            if let Form::Read(_) = claim.form {
                return sides::extend_read(data, &claim, params.ttl, now);
            }
            let keys = data.keys.without_expired(&*claim.keys, now);
            let is_held = |entry: &&StoredKey| !entry.is_kept();
            let owner = |key| keys.get(key).filter(is_held);
            let owners: Vec<_> = claim.keys.iter().map(owner).collect();
            // Another owner's key takes precedence over a missing one, because it is the clearer reason for a loss.
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
            fence(data, &claim, params.fencing, clock);
            Extension::Extended
        })
    }

    fn release(
        &self,
        claim: &Claim,
        _lifetime: Duration,
        how: ReleaseMode,
        _timeout: Duration,
    ) -> Reply<bool> {
        let (claim, own) = (claim.clone(), Arc::clone(&self.watch));
        if !self.store.down.load(Ordering::SeqCst) {
            return self.run(move |data, clock| delete(data, &claim, how, clock.now(), &own));
        }
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let pending_until = Arc::clone(&self.pending_until);
        self.store.run(move |data| {
            let now = clock.now();
            let keys = data.keys.without_expired(&*claim.keys, now);
            let ours = claim.keys.iter().filter_map(|key| keys.get(key));
            let ours = ours.filter(|entry| entry.has(&claim.token));
            // A vote that failed has stored nothing.
            let Some(last) = ours.map(|entry| entry.expires).max() else { return };
            let delete = move |data: &mut Data| {
                delete(data, &claim, how, clock.now(), &own);
            };
            // The node may reply again by now, if another thread runs this.
            if !store.down.load(Ordering::SeqCst) {
                return delete(data);
            }
            let until = Arc::clone(&pending_until);
            let mut latest = lock(&pending_until);
            *latest = (*latest).max(Some(last));
            drop(latest);
            data.pending_deletes.push(Box::new(move |data| {
                *lock(&until) = None;
                delete(data);
            }));
        });
        failed()
    }

    fn keys(&self, containing: &str, _timeout: Duration) -> Reply<Vec<String>> {
        let containing = containing.to_owned();
        self.run(move |data, clock| {
            let now = clock.now();
            let keys = data.keys.without_expired([], now).iter();
            let live = keys.filter(|(key, entry)| entry.expires > now && key.contains(&containing));
            live.map(|(key, _)| key.clone()).collect()
        })
    }

    fn may_leave_keys(&self) -> bool {
        lock(&self.pending_until).is_some_and(|until| until > self.clock.now())
    }

    fn drained(&self) -> Reply<()> {
        if self.may_leave_keys() { failed() } else { Box::pin(std::future::ready(Ok(()))) }
    }

    fn inspect(&self, key: &str, _timeout: Duration) -> Reply<Option<Holder>> {
        let key = key.to_owned();
        self.run(move |data, clock| {
            let now = clock.now();
            let entry = data.keys.without_expired([&key], now).get(&key);
            entry.map(|entry| Holder {
                token: entry.token.clone(),
                remaining: Some(entry.expires.since(now)),
            })
        })
    }
}
