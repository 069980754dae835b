//! Describes what to lock; each call starts one operation, whose outcome goes to the slot that is given.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::abortable;
use napi_derive::napi;
use redlock::ffi::{self, Unit};
use slab::Slab;

use crate::error::millis;
use crate::outcome::Outcome;
use crate::runtime::Local;

/// The options of a lock, as the caller gave them. Times are milliseconds.
#[napi(object, object_to_js = false)]
pub struct LockArgs {
    pub ttl: Option<f64>,
    pub wait: Option<f64>,
    pub renew: Option<bool>,
    pub max_hold: Option<f64>,
    pub node_timeout: Option<f64>,
    pub fencing: Option<bool>,
}

impl From<LockArgs> for redlock::ffi::LockArgs {
    fn from(args: LockArgs) -> Self {
        Self::of_lock(Unit::Milliseconds)
            .with("ttl", args.ttl)
            .with("wait", args.wait)
            .with("renew", args.renew)
            .with("max_hold", args.max_hold)
            .with("node_timeout", args.node_timeout)
            .with("fencing", args.fencing)
    }
}

/// What the nodes say about a lock.
#[napi(object, object_from_js = false)]
pub struct Inspection {
    pub held: bool,
    pub remaining: Option<f64>,
    pub nodes: Vec<NodeInspection>,
}

/// What one node says about a lock.
#[napi(object, object_from_js = false)]
pub struct NodeInspection {
    pub url: String,
    /// The Redis key.
    pub key: String,
    #[napi(ts_type = "'free' | 'held' | 'fault'")]
    pub state: String,
    pub remaining: Option<f64>,
    /// The first 8 digits.
    pub token: Option<String>,
    pub error: Option<String>,
}

impl From<redlock::Inspection> for Inspection {
    fn from(seen: redlock::Inspection) -> Self {
        Self {
            held: seen.held,
            remaining: seen.remaining.map(millis),
            nodes: seen.nodes.into_iter().map(NodeInspection::from).collect(),
        }
    }
}

impl From<redlock::NodeInspection> for NodeInspection {
    fn from(seen: redlock::NodeInspection) -> Self {
        Self {
            url: seen.url,
            key: seen.key,
            state: seen.state.to_owned(),
            remaining: seen.remaining.map(millis),
            token: seen.token,
            error: seen.error,
        }
    }
}

/// The locks that JavaScript can name by a number.
#[derive(Default)]
pub(crate) struct Locks(RefCell<Slab<redlock::Lock>>);

impl Local {
    pub(crate) fn acquire(&self, slot: u32, lock: u32, wait: Option<f64>) {
        let locks = self.locks.0.borrow();
        let acquire =
            locks.get(lock as usize).map(|lock| ffi::acquire(lock, wait, Unit::Milliseconds, None));
        drop(locks);
        match acquire {
            Some(Ok(acquire)) => {
                let (acquire, abort) = abortable(acquire);
                // Nobody hears of one that was cancelled.
                let lease = acquire.map(|lease| lease.map_or(Outcome::Done, Outcome::lease));
                self.enqueue(slot, lease, Some(abort));
            }
            Some(Err(error)) => self.enqueue(slot, async { Outcome::Failed(error) }, None),
            None => self.enqueue(slot, async { Outcome::Broken }, None),
        }
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
    pub(crate) fn new(local: &Rc<Local>, lock: redlock::Lock) -> Self {
        let number = local.locks.0.borrow_mut().insert(lock.clone());
        Self { local: local.clone(), lock, number }
    }
}

impl Drop for NativeLock {
    fn drop(&mut self) {
        self.local.locks.0.borrow_mut().try_remove(self.number);
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

    /// As a row that acquires, or settles with null: somebody else holds it.
    #[napi(catch_unwind)]
    pub fn try_acquire(&self, slot: u32) {
        let acquire = self.lock.try_acquire();
        self.local.start(slot, async move {
            match acquire.await {
                Ok(Some(lease)) => Outcome::Lease(lease),
                Ok(None) => Outcome::Done,
                Err(error) => Outcome::Failed(error),
            }
        });
    }

    /// As a row that acquires, for the lease of that token.
    #[napi(catch_unwind)]
    pub fn attach(&self, slot: u32, token: String) {
        let attach = self.lock.attach(&token);
        self.local.start(slot, async move {
            attach
                .await
                .map_or_else(Outcome::Failed, |lease| Outcome::Attached(lease.into_handle()))
        });
    }

    /// Settles with an `Inspection`.
    #[napi(catch_unwind)]
    pub fn inspect(&self, slot: u32) {
        let inspect = self.lock.inspect();
        self.local.start(slot, async move {
            match inspect.await {
                Ok(seen) => Outcome::Inspection(Box::new(seen)),
                Err(error) => Outcome::Failed(error),
            }
        });
    }
}
