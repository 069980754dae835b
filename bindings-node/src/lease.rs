//! The operations on a lease, which its number identifies.

use futures_util::FutureExt;
use napi_derive::napi;
use redlock::LeaseHandle;
use redlock::ffi::{self, Unit};

use crate::errors::{Failure, exact_millis, millis, throw};
use crate::outcome::Outcome;
use crate::runtime::{Runtime, ThreadState};

impl ThreadState {
    /// Releases the lease, after a body that `completed` with success or not. The request is sent together with the
    /// calls around it.
    pub(crate) fn release(&self, slot: u32, id: i64, completed: bool) {
        match self.held.with_lease(id, |lease| ffi::release(lease, completed)) {
            Some(release) => {
                let outcome = move |done: Result<_, _>| {
                    done.map_or_else(Outcome::Failed, |()| Outcome::Released(id))
                };
                self.enqueue(slot, release.map(outcome));
            }
            None => self.enqueue(slot, async { Outcome::Done }),
        }
    }
}

#[napi]
impl Runtime {
    /// Whether the lease is valid now.
    #[napi(catch_unwind)]
    pub fn lease_held(&self, id: i64) -> bool {
        self.thread.held.with_lease(id, LeaseHandle::is_held).unwrap_or(false)
    }

    /// Milliseconds for which the lease is certainly valid.
    #[napi(catch_unwind)]
    pub fn lease_remaining(&self, id: i64) -> f64 {
        let left = self.thread.held.with_lease(id, LeaseHandle::remaining);
        left.map_or(0.0, millis)
    }

    /// Why the lease is not held, or nothing while it is held.
    #[napi(catch_unwind)]
    pub fn lease_failure(&self, id: i64) -> Option<Failure> {
        let answer = self.thread.held.with_lease(id, LeaseHandle::ensure_held)?;
        answer.err().as_ref().map(Failure::from)
    }

    /// The owner's token, or nothing after the lease has ended. The outcome of an acquire already contains it.
    #[napi(catch_unwind)]
    pub fn lease_token(&self, id: i64) -> Option<String> {
        self.thread.held.with_lease(id, |lease| lease.token().to_owned())
    }

    /// The fencing token, or nothing after the lease has ended or if it has none. The outcome of an acquire already
    /// contains it.
    #[napi(catch_unwind)]
    pub fn lease_fence(&self, id: i64) -> Option<i64> {
        let fence = self.thread.held.with_lease(id, ffi::fence)?;
        // The token is in microseconds since 1970, which a double represents exactly until the year 2255.
        fence.and_then(|fence| i64::try_from(fence).ok())
    }

    /// The exact Redis keys, or nothing after the lease has ended.
    #[napi(catch_unwind)]
    pub fn lease_keys(&self, id: i64) -> Option<Vec<String>> {
        self.thread.held.with_lease(id, |lease| lease.keys().to_vec())
    }

    /// The lifetime that each renewal sets, in ms, or nothing after the lease has ended.
    #[napi(catch_unwind)]
    pub fn lease_ttl(&self, id: i64) -> Option<f64> {
        self.thread.held.with_lease(id, LeaseHandle::ttl).map(exact_millis)
    }

    /// Sets the call site of the acquire, for messages of core.
    #[napi(catch_unwind)]
    pub fn lease_call_site(&self, id: i64, call_site: String) {
        self.thread.held.with_lease(id, |lease| ffi::note_call_site(lease, call_site));
    }

    /// Extends the lease to at least `ttl` from now, by default its own `ttl`. False if the lease has ended.
    #[napi(catch_unwind)]
    pub fn lease_extend(&self, slot: u32, id: i64, ttl: Option<f64>) -> napi::Result<bool> {
        let Some(lease) = self.thread.held.get(id) else {
            return Ok(false);
        };
        let _deferred = self.thread.defer_sending();
        let extension = ffi::extend(&lease, ttl, Unit::Milliseconds)
            .map_err(|error| throw(self.thread.env, &error))?;
        let done =
            |done: redlock::Result<()>| done.map_or_else(Outcome::Failed, |()| Outcome::Done);
        self.thread.start(slot, extension.map(done));
        Ok(true)
    }

    /// Reports the loss of the lease as a `LOSS` row. The watch does not keep the process alive. False if the lease has
    /// ended.
    #[napi(catch_unwind)]
    pub fn lease_watch(&self, id: i64) -> bool {
        let Some(lease) = self.thread.held.get(id) else {
            return false;
        };
        self.thread.watch(id, lease.lost());
        true
    }

    /// Ends renewal and removes the lease. Its key expires when its TTL ends. True if it was still held.
    #[napi(catch_unwind)]
    pub fn lease_detach(&self, id: i64) -> bool {
        self.thread.held.remove(id).is_some_and(|lease| lease.detach())
    }
}
