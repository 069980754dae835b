//! A node as the algorithm of one client sees it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::node::{
    Claim, Expect, Extension, Fault, Fencing, Holder, Node, ReleaseMode, Reply, Vote, VoteParams,
    follow,
};

use super::clock::ClientClock;
use super::link::Open;
use super::request::{Answer, Request};
use super::world::World;

/// A request as text, without its token.
pub(super) fn short(request: &Request) -> String {
    match request {
        Request::Acquire { claim, ttl, fencing, first } => {
            format!("acquire {:?} ttl {ttl:?} {} {first}", claim.keys, *fencing != Fencing::Off)
        }
        Request::Attempt { claim, ttl, first } => {
            format!("attempt {:?} ttl {ttl:?} {first}", claim.keys)
        }
        Request::Extend { claim, ttl, check: true, .. } => {
            format!("check {:?} ttl {ttl:?}", claim.keys)
        }
        Request::Extend { claim, ttl, .. } => format!("extend {:?} ttl {ttl:?}", claim.keys),
        Request::Release { claim, stay } => format!("release {:?} stay {stay:?}", claim.keys),
        Request::Asking(inner) => format!("asking {}", short(inner)),
        Request::Slots { .. } => "slots".to_owned(),
        Request::Wait { replicas, time } => format!("wait {replicas} {time:?}"),
        Request::Inspect { key } => format!("inspect {key}"),
    }
}

/// A node as one client sees it.
#[derive(Clone)]
pub(super) struct SimulatedNode {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) url: String,
}

impl SimulatedNode {
    /// Sends to the node's default server, or to the given one.
    fn ask_at<T: Send + 'static>(
        &self,
        place: Option<usize>,
        request: Request,
        timeout: Duration,
        lifetime: Duration,
        read: fn(Answer) -> Option<T>,
    ) -> Reply<T> {
        let (answer, reply) = oneshot::channel();
        let mut world = self.world.lock().unwrap();
        let place = place.unwrap_or_else(|| world.owner(self.client, self.node));
        world.send((self.client, place), Open::new(request, timeout, lifetime, answer));
        drop(world);
        Box::pin(async move {
            match reply.await {
                Ok(answer) => {
                    answer.and_then(|answer| read(answer).ok_or_else(|| Fault::new("odd")))
                }
                Err(_) => Err(Fault::new("the client is gone")),
            }
        })
    }
}

impl SimulatedNode {
    /// Whether some clients might still have used the server's predecessor at this time.
    fn is_replaced(&self, asked: Instant) -> bool {
        let world = self.world.lock().unwrap();
        let link = &world.links[self.client][world.owner(self.client, self.node)];
        link.extends_from.is_some_and(|from| asked < from)
    }

    /// Sends a request again while servers redirect it.
    fn follow<T: Send + 'static>(
        &self,
        timeout: Duration,
        send: impl Fn(&Self) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        let (node, world) = (self.clone(), Arc::clone(&self.world));
        let rate = world.lock().unwrap().clocks[self.client];
        let send = move || send(&node);
        Box::pin(follow(Arc::new(ClientClock { world, rate }), timeout, send(), send))
    }

    fn vote(&self, claim: &Claim, params: VoteParams) -> Reply<Vote> {
        let VoteParams { ttl, timeout, fencing, first, expect, check: _ } = params;
        let vote = |answer| if let Answer::Vote(vote) = answer { Some(vote) } else { None };
        let script = Request::Acquire { claim: claim.clone(), ttl, fencing, first };
        if expect != Expect::Free || claim.keys.len() > 1 || fencing != Fencing::Off {
            return self.ask(script, timeout, ttl, vote);
        }
        let attempt = Request::Attempt { claim: claim.clone(), ttl, first };
        let owner = Some(self.world.lock().unwrap().owner(self.client, self.node));
        let attempt = self.ask_at(owner, attempt, timeout, ttl, vote);
        let node = self.clone();
        Box::pin(async move {
            match attempt.await? {
                granted @ Vote::Granted(_) => Ok(granted),
                Vote::Held(..) => node.ask_at(owner, script, timeout, ttl, vote).await,
            }
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        request: Request,
        timeout: Duration,
        lifetime: Duration,
        read: fn(Answer) -> Option<T>,
    ) -> Reply<T> {
        self.ask_at(None, request, timeout, lifetime, read)
    }
}

impl Node for SimulatedNode {
    fn url(&self) -> &str {
        &self.url
    }

    fn pushes(&self, _key: &str) -> bool {
        let world = self.world.lock().unwrap();
        world.links[self.client][world.owner(self.client, self.node)].up
    }

    /// A connection that breaks wakes the waiters.
    fn is_push_checked(&self, key: &str) -> bool {
        self.pushes(key)
    }

    fn still_counts(&self, key: &str, asked: Instant) -> bool {
        self.pushes(key) && !self.is_replaced(asked)
    }

    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote> {
        let claim = claim.clone();
        self.follow(params.timeout, move |node| node.vote(&claim, params))
    }

    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension> {
        let VoteParams { ttl, timeout, fencing, check, .. } = params;
        let request = Request::Extend { claim: claim.clone(), ttl, fencing, check };
        let world = self.world.lock().unwrap();
        let asked = world.clocks[self.client].local(world.now);
        drop(world);
        let reply = self.follow(timeout, move |node| {
            node.ask(request.clone(), timeout, ttl, |answer| {
                if let Answer::Extension(extension) = answer { Some(extension) } else { None }
            })
        });
        let node = self.clone();
        Box::pin(async move {
            let extension = reply.await?;
            // The rule of `RestartGuard::extend_fault`.
            if extension == Extension::Extended && node.is_replaced(asked) {
                return Err(Fault::new("it replaced another server"));
            }
            Ok(extension)
        })
    }

    fn release(
        &self,
        claim: &Claim,
        lifetime: Duration,
        how: ReleaseMode,
        _timeout: Duration,
    ) -> Reply<bool> {
        let stay = if let ReleaseMode::Stay(stay) = how { stay } else { Duration::ZERO };
        let request = Request::Release { claim: claim.clone(), stay };
        self.ask(request, Duration::ZERO, lifetime, |answer| {
            if let Answer::Released(ours) = answer { Some(ours) } else { None }
        })
    }

    fn inspect(&self, key: &str, timeout: Duration) -> Reply<Option<Holder>> {
        let request = Request::Inspect { key: key.to_owned() };
        self.follow(timeout, move |node| {
            node.ask(request.clone(), Duration::ZERO, Duration::ZERO, |answer| {
                if let Answer::Holder(holder) = answer { Some(holder) } else { None }
            })
        })
    }
}
