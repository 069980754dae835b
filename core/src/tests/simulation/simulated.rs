//! A node of the product, whose calls the monitor observes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Instant;
use crate::node::{
    Claim, Extension, Guarded, Holder, Node, Outage, ReleaseMode, Reply, Vote, VoteParams,
};

use super::world::World;

/// The tokens of votes and extensions without a reply, by a number.
pub(super) type Outstanding = Arc<Mutex<(u64, BTreeMap<u64, Arc<str>>)>>;

pub(super) struct SimulatedNode {
    pub(super) node: Arc<dyn Node>,
    pub(super) world: Arc<Mutex<World>>,
    pub(super) client: usize,
    pub(super) outstanding: Outstanding,
}

/// Ends when the reply arrives or no caller waits for it any more.
struct Waits(Outstanding, u64);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.lock().unwrap().1.remove(&self.1);
    }
}

impl SimulatedNode {
    fn waits<T: Send + 'static>(&self, claim: &Claim, reply: Reply<T>) -> Reply<T> {
        let mut outstanding = self.outstanding.lock().unwrap();
        outstanding.0 += 1;
        let number = outstanding.0;
        outstanding.1.insert(number, Arc::clone(&claim.token));
        let waits = Waits(Arc::clone(&self.outstanding), number);
        Box::pin(async move {
            let reply = reply.await;
            drop(waits);
            reply
        })
    }
}

impl Node for SimulatedNode {
    fn url(&self) -> &str {
        self.node.url()
    }

    fn outage(&self) -> Option<&Outage> {
        self.node.outage()
    }

    fn pushes(&self, key: &str) -> bool {
        self.node.pushes(key)
    }

    fn is_push_checked(&self, key: &str) -> bool {
        self.node.is_push_checked(key)
    }

    fn is_connected(&self, key: &str) -> bool {
        self.node.is_connected(key)
    }

    fn votes_soon(&self, key: &str, timeout: Duration) -> bool {
        self.node.votes_soon(key, timeout)
    }

    fn connecting(&self) -> Option<String> {
        self.node.connecting()
    }

    fn connected(&self, key: &str) -> Reply<()> {
        self.node.connected(key)
    }

    fn guarded(&self, key: &str) -> Option<Guarded> {
        self.node.guarded(key)
    }

    fn still_counts(&self, key: &str, asked: Instant) -> bool {
        self.node.still_counts(key, asked)
    }

    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote> {
        self.waits(claim, self.node.acquire(claim, params))
    }

    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension> {
        self.waits(claim, self.node.extend(claim, params))
    }

    fn release(
        &self,
        claim: &Claim,
        lifetime: Duration,
        how: ReleaseMode,
        timeout: Duration,
    ) -> Reply<bool> {
        let stay = match how {
            // A late release lengthens the TTL of keys that have not expired yet.
            ReleaseMode::Stay { time, lengthens: true } => time + lifetime,
            ReleaseMode::Stay { time, .. } => time,
            _ => Duration::ZERO,
        };
        self.world.lock().unwrap().gives_up(self.client, claim, stay);
        self.node.release(claim, lifetime, how, timeout)
    }

    fn inspect(&self, key: &str, timeout: Duration) -> Reply<Option<Holder>> {
        self.node.inspect(key, timeout)
    }

    fn may_leave_keys(&self) -> bool {
        self.node.may_leave_keys()
    }

    fn drained(&self) -> Reply<()> {
        self.node.drained()
    }
}
