//! What this JavaScript thread holds: leases by the number of the call that acquired them.
//!
//! A number, not an object of its own: making and collecting a wrapped object costs more than the rest of a release.
//! Numbers whose lease is over stay unknown, and answer as a lease that is not held.

use std::cell::RefCell;
use std::collections::HashMap;

use futures_util::FutureExt;
use futures_util::future::AbortHandle;
use napi_derive::napi;
use redlock::LeaseHandle;
use redlock::ffi::{self, Unit};

use crate::error::{Failure, millis, throw};
use crate::outcome::Outcome;
use crate::runtime::{Local, Runtime};

struct Entry {
    hold: LeaseHandle,
    /// Waits for the loss, once somebody asked to be told; ends with the entry.
    watch: Option<AbortHandle>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

#[derive(Default)]
pub(crate) struct Leases(RefCell<HashMap<u32, Entry>>);

impl Leases {
    pub(crate) fn insert(&self, id: u32, hold: LeaseHandle) {
        self.0.borrow_mut().insert(id, Entry { hold, watch: None });
    }

    pub(crate) fn remove(&self, id: u32) -> Option<LeaseHandle> {
        self.0.borrow_mut().remove(&id).map(|entry| entry.hold.clone())
    }

    pub(crate) fn get(&self, id: u32) -> Option<LeaseHandle> {
        self.0.borrow().get(&id).map(|entry| entry.hold.clone())
    }

    /// The numbers under which these holds are known here.
    pub(crate) fn ids_of(&self, holds: &[LeaseHandle]) -> Vec<u32> {
        let leases = self.0.borrow();
        let known = leases.iter().map(|(id, entry)| (ffi::identity(&entry.hold), *id));
        let known: HashMap<_, _> = known.collect();
        holds.iter().filter_map(|hold| known.get(&ffi::identity(hold)).copied()).collect()
    }

    fn ask<T>(&self, id: u32, question: impl FnOnce(&LeaseHandle) -> T) -> Option<T> {
        self.0.borrow().get(&id).map(|entry| question(&entry.hold))
    }
}

impl Drop for Leases {
    /// The environment ended, not the work: what was held lives out its ttl.
    fn drop(&mut self) {
        for entry in self.0.get_mut().values() {
            entry.hold.abandon();
        }
    }
}

impl Local {
    /// Sends the release now; its outcome comes with those of the calls around it.
    pub(crate) fn release(&self, slot: u32, id: u32) {
        match self.leases.ask(id, LeaseHandle::release) {
            Some(release) => {
                let outcome = move |done: Result<_, _>| {
                    done.map_or_else(Outcome::Failed, |()| Outcome::Released(id))
                };
                self.enqueue(slot, release.map(outcome), None);
            }
            None => self.enqueue(slot, async { Outcome::Done }, None),
        }
    }
}

#[napi]
impl Runtime {
    /// Whether the lease is valid now.
    #[napi(catch_unwind)]
    pub fn lease_held(&self, id: u32) -> bool {
        self.local.leases.ask(id, LeaseHandle::held).unwrap_or(false)
    }

    /// Milliseconds that are left for sure.
    #[napi(catch_unwind)]
    pub fn lease_remaining(&self, id: u32) -> f64 {
        let left = self.local.leases.ask(id, LeaseHandle::remaining);
        left.map_or(0.0, millis)
    }

    /// Why the lease is not held; nothing while it is.
    #[napi(catch_unwind)]
    pub fn lease_failure(&self, id: u32) -> Option<Failure> {
        let answer = self.local.leases.ask(id, LeaseHandle::ensure_held)?;
        answer.err().as_ref().map(Failure::from)
    }

    /// The owner's token; nothing once it is over. A lease that was acquired here has it in its outcome.
    #[napi(catch_unwind)]
    pub fn lease_token(&self, id: u32) -> Option<String> {
        self.local.leases.ask(id, |hold| hold.token().to_owned())
    }

    /// The fencing token; nothing if none was asked for, or once the lease is over. As with the token.
    #[napi(catch_unwind)]
    pub fn lease_fence(&self, id: u32) -> Option<i64> {
        let fence = self.local.leases.ask(id, LeaseHandle::fencing_token)?;
        // Microseconds since 1970: exact in a double until the year 2255.
        fence.ok().and_then(|fence| i64::try_from(fence).ok())
    }

    /// The exact Redis key; nothing once it is over.
    #[napi(catch_unwind)]
    pub fn lease_key(&self, id: u32) -> Option<String> {
        self.local.leases.ask(id, LeaseHandle::key)
    }

    /// Notes where it was acquired, for core's messages.
    #[napi(catch_unwind)]
    pub fn lease_place(&self, id: u32, place: String) {
        self.local.leases.ask(id, |hold| ffi::note_call_site(hold, place));
    }

    /// Starts an extension to at least `ttl` from now; the lease's own ttl if not given. False if the lease is over.
    #[napi(catch_unwind)]
    pub fn lease_extend(&self, slot: u32, id: u32, ttl: Option<f64>) -> napi::Result<bool> {
        let Some(hold) = self.local.leases.get(id) else {
            return Ok(false);
        };
        let extension = ffi::extend(&hold, ttl, Unit::Milliseconds)
            .map_err(|error| throw(self.local.env, &error))?;
        let call = async move { extension.await.map_or_else(Outcome::Failed, |()| Outcome::Done) };
        self.local.start(slot, call);
        Ok(true)
    }

    /// Starts waiting for the loss, which does not keep the process alive and is told as a `LOSS`. False if the lease is over.
    #[napi(catch_unwind)]
    pub fn lease_watch(&self, id: u32) -> bool {
        let Some(hold) = self.local.leases.get(id) else {
            return false;
        };
        let watch = self.local.watch(id, hold.lost());
        if let Some(entry) = self.local.leases.0.borrow_mut().get_mut(&id) {
            entry.watch = Some(watch);
        }
        true
    }

    /// Ends renewal and forgets the lease; its key lives out its ttl. True if it was still held.
    #[napi(catch_unwind)]
    pub fn lease_abandon(&self, id: u32) -> bool {
        self.local.leases.remove(id).is_some_and(|hold| hold.abandon())
    }
}
