//! Describes what to lock; each call starts one operation and answers with its number.

use std::rc::Rc;

use napi_derive::napi;
use redlock::Unit;

use crate::error::{millis, throw};
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

impl From<LockArgs> for redlock::LockArgs {
    fn from(args: LockArgs) -> Self {
        Self {
            unit: Unit::Milliseconds,
            ttl: args.ttl,
            wait: args.wait,
            renew: args.renew,
            max_hold: args.max_hold,
            node_timeout: args.node_timeout,
            fencing: args.fencing,
        }
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

/// A lock: names and options of one client.
#[napi]
pub struct NativeLock {
    pub(crate) local: Rc<Local>,
    pub(crate) lock: redlock::Lock,
}

#[napi]
impl NativeLock {
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

    /// Settles with whether the lease, which has this call's number, is still held.
    #[napi(catch_unwind)]
    pub fn acquire(&self, wait: Option<f64>) -> napi::Result<u32> {
        let acquire = self
            .lock
            .acquire_args(wait, Unit::Milliseconds)
            .map_err(|error| throw(self.local.env, &error))?;
        Ok(self.local.start(async move { Outcome::lease(acquire.await) }))
    }

    /// As `acquire`, or settles with null: somebody else holds it.
    #[napi(catch_unwind)]
    pub fn try_acquire(&self) -> u32 {
        let acquire = self.lock.try_acquire();
        self.local.start(async move {
            match acquire.await {
                Ok(Some(lease)) => Outcome::Lease(lease),
                Ok(None) => Outcome::Done,
                Err(error) => Outcome::Failed(error),
            }
        })
    }

    /// As `acquire`, for the lease of that token.
    #[napi(catch_unwind)]
    pub fn attach(&self, token: String) -> u32 {
        let attach = self.lock.attach(&token);
        self.local.start(async move { Outcome::lease(attach.await) })
    }

    /// Settles with an `Inspection`.
    #[napi(catch_unwind)]
    pub fn inspect(&self) -> u32 {
        let inspect = self.lock.inspect();
        self.local.start(async move {
            match inspect.await {
                Ok(seen) => Outcome::Inspection(Box::new(seen)),
                Err(error) => Outcome::Failed(error),
            }
        })
    }
}
