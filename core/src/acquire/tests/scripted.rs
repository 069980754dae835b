//! Nodes that follow a script, on a paused clock.

use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{sleep, timeout};

use super::super::acquire;
use crate::clock::paused::Paused;
use crate::clock::{Clock, Instant};
use crate::engine::running::Running;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::node::{
    Claim, Extension, Fault, Holder, Label, Node, Refused, ReleaseMode, Reply, Vote, VoteParams,
    Watch,
};
use crate::options::lock::{Options, Request};
use crate::primitive::{Primitive, Semaphore};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// How a node handles every vote.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// It cannot be reached.
    Fails,
    /// The same, but that is known after this time.
    FailsIn(Duration),
    /// It never replies.
    Hangs,
    /// The same, and it has no connection.
    Connects,
    /// Another client holds the lock there.
    Refuses,
    /// The same, but the reply arrives after this time.
    RefusesIn(Duration),
    Grants,
    /// It grants after this time, with this fencing token, and confirms no other token.
    GrantsIn(Duration, u64),
    /// It grants, and its server is replaced before the round ends.
    GrantsAndIsReplaced,
    /// It extends, and the holder renews the lease at the same time.
    ExtendsWithHolder,
    /// It replies at once that the keys are missing.
    Misses,
}

struct Scripted {
    url: String,
    does: Arc<Mutex<Vec<Does>>>,
    at: usize,
    watch: Arc<Watch>,
}

impl Node for Scripted {
    fn url(&self) -> &str {
        &self.url
    }

    fn pushes(&self, _key: &str) -> bool {
        false
    }

    fn is_connected(&self, _key: &str) -> bool {
        !matches!(self.does.lock().unwrap()[self.at], Does::Connects)
    }

    fn still_counts(&self, _key: &str, _asked: Instant) -> bool {
        !matches!(self.does.lock().unwrap()[self.at], Does::GrantsAndIsReplaced)
    }

    fn acquire(&self, _claim: &Claim, _params: VoteParams) -> Reply<Vote> {
        let holder = Label::parse("web-3");
        let refused = Refused { left: Some(60 * SECOND), holder, ..Refused::default() };
        let held = Vote::Held(Box::new(refused));
        match self.does.lock().unwrap()[self.at] {
            Does::Fails => Box::pin(ready(Err(Fault::new("cannot be reached")))),
            Does::Hangs | Does::Connects => Box::pin(pending()),
            Does::Refuses => Box::pin(ready(Ok(held))),
            Does::Grants | Does::GrantsAndIsReplaced | Does::ExtendsWithHolder | Does::Misses => {
                Box::pin(ready(Ok(Vote::Granted(None))))
            }
            Does::RefusesIn(time) => Box::pin(sleep(time).map(|()| Ok(held))),
            Does::FailsIn(time) => {
                Box::pin(sleep(time).map(|()| Err(Fault::new("cannot be reached"))))
            }
            Does::GrantsIn(time, fence) => {
                Box::pin(sleep(time).map(move |()| Ok(Vote::Granted(Some(fence)))))
            }
        }
    }

    fn extend(&self, claim: &Claim, _params: VoteParams) -> Reply<Extension> {
        match self.does.lock().unwrap()[self.at] {
            Does::ExtendsWithHolder => {
                self.watch.changed_keys(&claim.keys);
                Box::pin(ready(Ok(Extension::Extended)))
            }
            // A release is sent in the meantime.
            Does::Grants => Box::pin(sleep(SECOND / 10).map(|()| Ok(Extension::Missing))),
            Does::Misses => Box::pin(ready(Ok(Extension::Missing))),
            _ => Box::pin(pending()),
        }
    }

    fn release(
        &self,
        _claim: &Claim,
        _lifetime: Duration,
        _how: ReleaseMode,
        _timeout: Duration,
    ) -> Reply<bool> {
        Box::pin(ready(Ok(true)))
    }

    fn inspect(&self, _key: &str, _timeout: Duration) -> Reply<Option<Holder>> {
        Box::pin(pending())
    }
}

/// A client over scripted nodes, and the request that it makes.
pub(super) struct Setup {
    pub(super) clock: Arc<Paused>,
    pub(super) running: Running,
    does: Arc<Mutex<Vec<Does>>>,
    pub(super) request: Arc<Request>,
}

impl Setup {
    /// `unavailable_after` is `limit`. Votes time out after one second.
    pub(super) fn new(does: &[Does], limit: impl Into<Option<Duration>>) -> Self {
        let options = Options { unavailable_after: limit.into(), ..Options::default() };
        Self::with(does, options)
    }

    pub(super) fn with(does: &[Does], options: Options) -> Self {
        Self::of_primitive(does, options, Primitive::Mutex { fences: Arc::default() })
    }

    /// A semaphore of this many permits.
    pub(super) fn semaphore(does: &[Does], limit: u32) -> Self {
        let semaphore = Semaphore::new("job", limit, 1).unwrap();
        Self::of_primitive(does, Options::default(), Primitive::Semaphore(semaphore))
    }

    fn of_primitive(does: &[Does], options: Options, primitive: Primitive) -> Self {
        let clock = Arc::new(Paused::new());
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let count = does.len();
        let does = Arc::new(Mutex::new(does.to_vec()));
        let node = |at, watch| -> Arc<dyn Node> {
            Arc::new(Scripted { url: format!("node://{at}"), does: Arc::clone(&does), at, watch })
        };
        let nodes = |watch: &Arc<Watch>| (0..count).map(|at| node(at, Arc::clone(watch))).collect();
        let (running, monitor) = Running::assemble(&shared, SECOND, Arc::default(), nodes);
        tokio::spawn(monitor);
        let request = Arc::new(Request {
            identity: Arc::from(["job".to_owned()]),
            primitive,
            options,
            guard: Duration::ZERO,
            doubt: None,
        });
        Self { clock, running, does, request }
    }

    pub(super) fn now_does(&self, does: &[Does]) {
        *self.does.lock().unwrap() = does.to_vec();
    }

    pub(super) fn acquire(&self) -> impl Future<Output = Result<Lease>> {
        self.within(None)
    }

    pub(super) fn within(&self, wait: Option<Duration>) -> impl Future<Output = Result<Lease>> {
        acquire(&self.running.acquirer, &self.request, wait, None)
    }

    /// The error of an acquire, and the time of the test by then.
    pub(super) async fn fails(
        &self,
        acquire: impl Future<Output = Result<Lease>>,
    ) -> (Error, Duration) {
        let error = timeout(600 * SECOND, acquire).await.expect("the end of the wait");
        (error.expect_err("no lease"), self.clock.elapsed())
    }
}

/// Timers round up to a millisecond.
pub(super) fn assert_at(time: Duration, expected: Duration) {
    let near = Duration::from_millis(5);
    assert!(time >= expected && time < expected + near, "{time:?}, expected {expected:?}");
}
