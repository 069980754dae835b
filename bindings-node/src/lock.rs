//! Describes what to lock; each call starts one operation, whose outcome goes to the slot that is given.

use std::rc::Rc;

use futures_util::FutureExt;
use napi::bindgen_prelude::Object;
use napi_derive::napi;
use redlock::Redlock;
use redlock::ffi::{self, Acquire, Unit};

use crate::errors::{exact_millis, throw};
use crate::number::Number;
use crate::options::lock_args;
use crate::outcome::Outcome;
use crate::runtime::{Local, Runtime};

impl Local {
    /// Acquires the lock of this number; sent with the calls around it.
    pub(crate) fn acquire(&self, slot: u32, lock: Number, wait: Option<f64>) {
        let new = |lock: &redlock::Lock| Acquire::new(lock, wait, Unit::Milliseconds, None);
        let acquire =
            usize::try_from(lock).ok().and_then(|lock| self.locks.borrow().get(lock).map(new));
        match acquire {
            Some(Ok(acquire)) => self.ask(slot, acquire),
            Some(Err(error)) => self.enqueue(slot, async { Outcome::Failed(error) }),
            None => self.enqueue(slot, async { Outcome::Broken }),
        }
    }
}

#[napi]
impl Runtime {
    /// Asks again, for this slot, for a lease that ended before its caller could run; within the budget of the first
    /// time. Only while outcomes are delivered. False for any other lease.
    #[napi(catch_unwind)]
    pub fn acquire_again(&self, slot: u32, id: i64) -> bool {
        let Some(acquire) = self.local.delivered(id) else {
            return false;
        };
        self.local.held.remove(id).map(|lease| lease.abandon());
        self.local.ask(slot, acquire);
        self.local.wake();
        true
    }
}

/// A lock: names and options of one client.
#[napi]
pub struct NativeLock {
    local: Rc<Local>,
    lock: redlock::Lock,
    number: usize,
}

impl NativeLock {
    /// One that JavaScript can name by a number from now on. Every option is checked.
    pub(crate) fn describe(
        local: &Rc<Local>,
        client: &Redlock,
        names: Vec<String>,
        options: &Object<'_>,
    ) -> napi::Result<Self> {
        let lock = ffi::lock(client, names, &lock_args(options)?);
        let lock = lock.map_err(|error| throw(local.env, &error))?;
        let number = local.locks.borrow_mut().insert(lock.clone());
        Ok(Self { local: Rc::clone(local), lock, number })
    }
}

impl Drop for NativeLock {
    fn drop(&mut self) {
        self.local.locks.borrow_mut().try_remove(self.number);
    }
}

#[napi]
impl NativeLock {
    /// What a row that acquires it calls it.
    #[napi(getter, catch_unwind)]
    pub fn number(&self) -> u32 {
        u32::try_from(self.number).unwrap_or(u32::MAX)
    }

    /// The exact Redis key (several names: what errors call them).
    #[napi(getter, catch_unwind)]
    pub fn key(&self) -> String {
        self.lock.key()
    }

    /// The exact Redis keys.
    #[napi(getter, catch_unwind)]
    pub fn keys(&self) -> Vec<String> {
        self.lock.keys().to_vec()
    }

    /// The ttl of its leases, in milliseconds.
    #[napi(getter, catch_unwind)]
    pub fn ttl(&self) -> f64 {
        exact_millis(ffi::own_ttl(&self.lock))
    }

    /// As a row that acquires, or settles with null: somebody else holds it.
    #[napi(catch_unwind)]
    pub fn try_acquire(&self, slot: u32) {
        self.local.ask(slot, Acquire::once(&self.lock));
        self.local.wake();
    }

    /// As a row that acquires, for the lease of that token.
    #[napi(catch_unwind)]
    pub fn attach(&self, slot: u32, token: String) {
        let attached = |lease: redlock::Lease| Outcome::Attached(lease.into_handle());
        let attach = self.lock.attach(&token);
        self.local.start(slot, attach.map(move |done| done.map_or_else(Outcome::Failed, attached)));
    }

    /// Settles with an `Inspection`.
    #[napi(catch_unwind)]
    pub fn inspect(&self, slot: u32) {
        let seen = |seen| Outcome::Inspection(Box::new(seen));
        let inspect = self.lock.inspect();
        self.local.start(slot, inspect.map(move |done| done.map_or_else(Outcome::Failed, seen)));
    }
}
