//! Tests when an acquire without a `wait` gives up, and of leases over such nodes. The nodes are scripted, and the
//! clock is paused.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{sleep, sleep_until, timeout};

use super::{acquire, attach};
use crate::clock::{Clock, Instant, Sleep};
use crate::engine::running::Running;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::node::{
    Claim, Extension, Fault, Holder, Label, Node, Refused, ReleaseMode, Reply, Vote, VoteParams,
    Watch,
};
use crate::options::lock::{Options, Request};
use crate::primitive::{Preference, Primitive};

const SECOND: Duration = Duration::from_secs(1);

/// How a node handles every vote.
#[derive(Clone, Copy)]
enum Does {
    /// It cannot be reached.
    Fails,
    /// It never replies.
    Hangs,
    /// Another client holds the lock there.
    Refuses,
    /// The same, but the reply arrives after this time.
    RefusesIn(Duration),
    Grants,
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

    fn still_counts(&self, _key: &str, _asked: Instant) -> bool {
        !matches!(self.does.lock().unwrap()[self.at], Does::GrantsAndIsReplaced)
    }

    fn acquire(&self, _claim: &Claim, _params: VoteParams) -> Reply<Vote> {
        let holder = Label::parse("web-3");
        let refused = Refused { left: Some(60 * SECOND), holder, ..Refused::default() };
        let held = Vote::Held(Box::new(refused));
        match self.does.lock().unwrap()[self.at] {
            Does::Fails => Box::pin(ready(Err(Fault::new("cannot be reached")))),
            Does::Hangs => Box::pin(pending()),
            Does::Refuses => Box::pin(ready(Ok(held))),
            Does::Grants | Does::GrantsAndIsReplaced | Does::ExtendsWithHolder | Does::Misses => {
                Box::pin(ready(Ok(Vote::Granted(None))))
            }
            Does::RefusesIn(time) => Box::pin(async move {
                sleep(time).await;
                Ok(held)
            }),
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

/// The time of tokio's runtime, which is paused.
struct Paused(tokio::time::Instant);

impl Paused {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for Paused {
    fn now(&self) -> Instant {
        Instant::from_start(self.elapsed())
    }

    fn wall_micros(&self) -> u64 {
        0
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let left = at.since(self.now()).min(3600 * SECOND);
        Box::pin(sleep_until(self.0 + self.elapsed() + left))
    }
}

/// A client over scripted nodes, and the request that it makes.
struct Setup {
    clock: Arc<Paused>,
    running: Running,
    does: Arc<Mutex<Vec<Does>>>,
    request: Arc<Request>,
}

impl Setup {
    /// `unavailable_after` is `limit`. Votes time out after one second.
    fn new(does: &[Does], limit: impl Into<Option<Duration>>) -> Self {
        let clock = Arc::new(Paused(tokio::time::Instant::now()));
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let count = does.len();
        let does = Arc::new(Mutex::new(does.to_vec()));
        let node = |at, watch| -> Arc<dyn Node> {
            Arc::new(Scripted { url: format!("node://{at}"), does: Arc::clone(&does), at, watch })
        };
        let nodes = |watch: &Arc<Watch>| (0..count).map(|at| node(at, Arc::clone(watch))).collect();
        let (running, monitor) = Running::assemble(&shared, SECOND, Arc::default(), nodes);
        tokio::spawn(monitor);
        let options = Options { unavailable_after: limit.into(), ..Options::default() };
        let (keys, fences) = (Arc::from(["job".to_owned()]), Arc::default());
        let request = Arc::new(Request {
            identity: keys,
            primitive: Primitive::Mutex { fences },
            options,
            guard: Duration::ZERO,
            doubt: None,
        });
        Self { clock, running, does, request }
    }

    fn now_does(&self, does: &[Does]) {
        *self.does.lock().unwrap() = does.to_vec();
    }

    fn acquire(&self) -> impl Future<Output = Result<Lease>> {
        self.within(None)
    }

    fn within(&self, wait: Option<Duration>) -> impl Future<Output = Result<Lease>> {
        acquire(&self.running.acquirer, &self.request, wait, None)
    }

    /// The error of an acquire, and the time of the test by then.
    async fn fails(&self, acquire: impl Future<Output = Result<Lease>>) -> (Error, Duration) {
        let error = timeout(600 * SECOND, acquire).await.expect("the end of the wait");
        (error.expect_err("no lease"), self.clock.elapsed())
    }
}

/// Timers round up to a millisecond.
fn assert_at(time: Duration, expected: Duration) {
    let near = Duration::from_millis(5);
    assert!(time >= expected && time < expected + near, "{time:?}, expected {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn dead_node_ends_the_acquire_exactly_at_the_limit() {
    for does in [Does::Fails, Does::Hangs] {
        let setup = Setup::new(&[does], 10 * SECOND);
        let (error, time) = setup.fails(setup.acquire()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 10 * SECOND);
        assert_eq!(error.waited(), Some(time));
        assert_eq!(error.nodes()[0].url, "node://0");
        let text = error.to_string();
        assert!(text.contains("job: not available for 10.00"), "{text}");
        assert!(text.contains("Gave up after unavailable_after (10 s)"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_without_limit_continues_until_the_node_returns() {
    let setup = Setup::new(&[Does::Fails], None);
    let mut acquire = pin!(setup.acquire());
    assert!(timeout(500 * SECOND, &mut acquire).await.is_err());
    setup.now_does(&[Does::Grants]);
    assert!(acquire.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn explicit_wait_replaces_the_limit() {
    let setup = Setup::new(&[Does::Fails], 10 * SECOND);
    for wait in [3 * SECOND, 60 * SECOND] {
        let began = setup.clock.elapsed();
        let (error, time) = setup.fails(setup.within(Some(wait))).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, began + wait);
        assert!(!error.to_string().contains("Gave up"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_held_lock_without_limit() {
    // One failed node of three changes nothing: it decides each vote before the third node has replied.
    let late = Does::RefusesIn(SECOND / 100);
    for does in
        [&[Does::Refuses][..], &[Does::Fails, Does::Refuses, late], &[late, Does::Hangs, late]]
    {
        let setup = Setup::new(does, SECOND);
        let mut acquire = pin!(setup.acquire());
        assert!(timeout(500 * SECOND, &mut acquire).await.is_err());
        setup.now_does(&vec![Does::Grants; does.len()]);
        assert!(acquire.await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn refusing_quorum_restarts_the_limit() {
    for held in
        [&[Does::Refuses; 3][..], &[Does::Fails, Does::Refuses, Does::RefusesIn(SECOND / 100)]]
    {
        let setup = Setup::new(&[Does::Fails; 3], 10 * SECOND);
        let mut acquire = pin!(setup.acquire());
        for _ in 0..5 {
            assert!(timeout(7 * SECOND, &mut acquire).await.is_err());
            setup.now_does(held);
            assert!(timeout(8 * SECOND, &mut acquire).await.is_err());
            setup.now_does(&[Does::Fails; 3]);
        }
        let began = setup.clock.elapsed();
        let (error, time) = setup.fails(acquire).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        // With one failed node, a round in about a second finds out whether the others are a quorum.
        assert!(time >= began + 8 * SECOND && time < began + 12 * SECOND, "{time:?}");
    }
}

/// The failed node and one refusal end the round, whenever the other replies arrive.
#[tokio::test(start_paused = true)]
async fn failed_node_does_not_hide_the_holder() {
    use Does::{Fails, Grants, Hangs, Refuses};
    let late = Does::RefusesIn(SECOND / 100);
    let degraded = [
        &[Fails, Refuses, late][..],
        &[Fails, Refuses, Hangs],
        &[late, Hangs, Fails],
        &[Grants, Refuses, Fails],
        &[Hangs, Fails, Refuses, Hangs, Refuses],
    ];
    for does in degraded {
        let setup = Setup::new(does, None);
        for wait in [Duration::ZERO, SECOND / 5] {
            let (error, _) = setup.fails(setup.within(Some(wait))).await;
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            let text = "it is already held by web-3, and expires in 60.000 s unless renewed";
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!((error.holder(), error.remaining()), (Some("web-3"), Some(60 * SECOND)));
        }
    }
}

/// One node of three is not a quorum, whether it is the scout or fails the vote together with another one.
#[tokio::test(start_paused = true)]
async fn key_on_a_minority_does_not_hide_a_missing_quorum() {
    let minority = [
        [Does::Fails, Does::Hangs, Does::Refuses],
        [Does::Refuses, Does::Fails, Does::Hangs],
        [Does::Refuses, Does::Hangs, Does::Hangs],
        [Does::Refuses, Does::Fails, Does::Fails],
    ];
    for does in minority {
        let setup = Setup::new(&does, 10 * SECOND);
        let (error, time) = setup.fails(setup.acquire()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 10 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn queued_callers_give_up_at_their_own_limit() {
    let setup = Setup::new(&[Does::Hangs], 10 * SECOND);
    let later = async {
        sleep(3 * SECOND).await;
        setup.fails(setup.acquire()).await
    };
    // More callers than a silent node allows within the limit.
    let first = futures_util::future::join_all((0..50).map(|_| setup.fails(setup.acquire())));
    let (first, (error, time)) = tokio::join!(first, later);
    for (error, time) in first {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 10 * SECOND);
        assert_eq!(error.nodes().len(), 1, "{error}");
    }
    assert_at(time, 13 * SECOND);
    assert!(error.to_string().contains("not available for 10.00"), "{error}");
}

/// Most of them never get their turn within the wait.
#[tokio::test(start_paused = true)]
async fn queued_callers_with_a_wait_report_the_outage() {
    let setup = Setup::new(&[Does::Hangs], 10 * SECOND);
    let all = (0..20).map(|_| setup.fails(setup.within(Some(5 * SECOND))));
    for (error, time) in futures_util::future::join_all(all).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 5 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn queued_callers_wait_for_a_held_lock() {
    let setup = Setup::new(&[Does::Refuses], SECOND);
    let all = futures_util::future::join_all((0..5).map(|_| setup.acquire()));
    assert!(timeout(100 * SECOND, all).await.is_err());
}

/// The new server of a node may have confirmed the holder's lease, after the old one granted the lock.
#[tokio::test(start_paused = true)]
async fn vote_of_a_server_that_is_replaced_during_the_round_does_not_count() {
    use Does::{Grants, GrantsAndIsReplaced, Hangs};
    let setup = Setup::new(&[GrantsAndIsReplaced, Grants, Hangs], SECOND);
    let (error, _) = setup.fails(setup.within(Some(5 * SECOND))).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    setup.now_does(&[Grants, Grants, GrantsAndIsReplaced]);
    assert!(setup.within(Some(SECOND)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn attach_fails_without_a_lease_if_the_keys_change_in_every_round() {
    let setup = Setup::new(&[Does::ExtendsWithHolder], None);
    let (claim, leases) = (setup.request.claim(&Preference::default()), setup.running.leases());
    let error = attach(&setup.request, &claim, leases, || None).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("changed during every attempt"), "{error}");
    assert!(leases.registry.leases().is_empty());
}

/// A server that cannot run the check may be in this state for long. The loss is noticed soon after.
#[tokio::test(start_paused = true)]
async fn loss_is_noticed_soon_after_an_outage() {
    let (ttl, mut setup) = (600 * SECOND, Setup::new(&[Does::Grants], None));
    let request = Arc::get_mut(&mut setup.request).unwrap();
    (request.options.ttl, request.options.renew) = (ttl, false);
    let lease = setup.acquire().await.unwrap();
    setup.now_does(&[Does::Hangs]);
    setup.running.leases().watch.changed_keys(&["job".to_owned()]);
    sleep(100 * SECOND).await;
    assert!(lease.is_held());
    setup.now_does(&[Does::Misses]);
    let begun = setup.clock.elapsed();
    lease.lost().await;
    assert!(setup.clock.elapsed() < begun + 7 * SECOND, "{:?}", setup.clock.elapsed());
}

#[tokio::test(start_paused = true)]
async fn renewal_that_a_release_denies_is_not_counted_as_failed() {
    let setup = Setup::new(&[Does::Grants], None);
    let lease = setup.acquire().await.unwrap();
    let ttl = lease.ttl();
    let counts = || {
        let stats = setup.running.leases().counts.snapshot();
        (stats.unrenewed, stats.released)
    };
    // A renewal is under way.
    sleep(ttl / 3 + SECOND / 20).await;
    lease.release().await.unwrap();
    sleep(SECOND).await;
    assert_eq!(counts(), (0, 1));
    let lost = setup.acquire().await.unwrap();
    lost.lost().await;
    sleep(SECOND).await;
    assert_eq!(counts(), (1, 1));
}
