//! `leader`: bodies that are dropped, losses and outages. `conformance/test_leader.py` has the rest.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};
use redlock::{Error, ErrorKind, Leader, LeaseHandle, Redlock};
use tokio::sync::{mpsc, oneshot};

use crate::support::{Server, client, eventually};

const SECOND: Duration = Duration::from_secs(1);

fn candidate(redlock: &Redlock, label: &str) -> Leader {
    redlock.leader("scheduler").ttl(20 * SECOND).label(label)
}

fn memory(name: &str) -> Redlock {
    Redlock::builder([format!("memory://{name}")]).build().unwrap()
}

fn error() -> Error {
    Redlock::builder(["memory://"]).build().unwrap().lock("").acquire_blocking().unwrap_err()
}

/// A candidate, whose runs count the bodies that exist.
struct Counted(AtomicU32);

impl Counted {
    async fn body(&self, lease: LeaseHandle, begun: &mpsc::UnboundedSender<LeaseHandle>) {
        struct Ends<'a>(&'a AtomicU32);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "two bodies");
        let _ends = Ends(&self.0);
        begun.send(lease).unwrap();
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
async fn loss_drops_the_body_and_begins_the_next_campaign() {
    let redlock = TestRedlock::new().unwrap();
    let leader = redlock.leader("scheduler");
    let (begun, mut begins) = mpsc::unbounded_channel();
    let task = tokio::spawn({
        let (leader, bodies) = (leader.clone(), Counted(AtomicU32::new(0)));
        async move {
            leader
                .run(async |lease| {
                    bodies.body(lease, &begun).await;
                    Ok::<(), Error>(())
                })
                .await
        }
    });
    for _ in 0..3 {
        let lease = begins.recv().await.unwrap();
        assert!(leader.is_leading());
        assert!(redlock.lose("scheduler").await.unwrap());
        assert!(!lease.is_held());
    }
    // The end of the client ends the body, and no campaign begins.
    begins.recv().await.unwrap();
    redlock.close();
    assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert!(!leader.is_leading());
}

/// The error of a body that failed after the loss belongs to a term that had ended.
#[tokio::test]
async fn body_that_fails_after_its_loss_runs_again() {
    let redlock = TestRedlock::new().unwrap();
    let mut terms = 0;
    let leader = redlock.leader("scheduler");
    let led = leader.run(|lease| {
        terms += 1;
        let is_first = terms == 1;
        let redlock = &redlock;
        async move {
            // Nothing is awaited after the loss, so it does not drop the body.
            if is_first {
                drop(redlock.release_all());
                assert!(!lease.is_held());
            }
            lease.ensure_held()
        }
    });
    led.await.unwrap();
    assert_eq!(terms, 2);
    let runtime = tokio::runtime::Handle::current();
    let terms = AtomicU32::new(0);
    let blocking = || {
        leader.run_blocking(|lease| {
            if terms.fetch_add(1, Ordering::Relaxed) == 0 {
                assert!(runtime.block_on(redlock.lose("scheduler"))?);
                assert!(!leader.is_leading() && !lease.is_held());
            }
            lease.ensure_held()
        })
    };
    std::thread::scope(|threads| threads.spawn(blocking).join()).unwrap().unwrap();
    assert_eq!(terms.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn failed_blocking_body_resigns() {
    let leader = memory("leader-failed").leader("scheduler");
    assert!(leader.run_blocking(|_| Err::<(), _>(error())).is_err());
    assert_eq!(leader.current().await.unwrap(), None);
}

#[tokio::test]
async fn dropped_run_resigns_or_leaves_the_queue() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let (begun, begins) = oneshot::channel();
    let mut begun = Some(begun);
    let leads = tokio::spawn({
        let leader = candidate(&one, "one");
        async move {
            leader
                .run(|_| {
                    begun.take().unwrap().send(()).unwrap();
                    std::future::pending::<Result<(), Error>>()
                })
                .await
        }
    });
    begins.await.unwrap();
    let campaigns = [&one, &two].map(|redlock| tokio::spawn(candidate(redlock, "two").campaign()));
    eventually("they campaign", || one.stats().waiting + two.stats().waiting == 2).await;
    for campaign in campaigns {
        campaign.abort();
        assert!(campaign.await.unwrap_err().is_cancelled());
    }
    assert_eq!(one.stats().waiting + two.stats().waiting, 0);
    leads.abort();
    eventually("resigned", || server.ask("EXISTS lock:scheduler") == ":0").await;
}

#[tokio::test]
async fn campaign_survives_an_outage() {
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    redlock.fail();
    let leader = redlock.leader("scheduler");
    let campaign = tokio::spawn(leader.campaign());
    eventually("it campaigns", || redlock.stats().waiting == 1).await;
    // A lock without a wait gives up after 10 s.
    let gives_up = tokio::spawn(redlock.lock("other").acquire());
    while !gives_up.is_finished() {
        clock.advance(SECOND).await;
    }
    assert_eq!(gives_up.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    clock.advance(600 * SECOND).await;
    assert!(!campaign.is_finished());
    redlock.recover();
    while !campaign.is_finished() {
        clock.advance(SECOND).await;
    }
    let lease = campaign.await.unwrap().unwrap();
    assert!(lease.is_held() && leader.is_leading());
    // An outage during the term ends it at the latest with its lease.
    redlock.fail();
    clock.advance(10 * SECOND).await;
    assert!(!leader.is_leading());
}

#[tokio::test]
async fn leader_excludes_a_lock_of_the_name() {
    let redlock = memory("leader-lock");
    let leader = redlock.leader("scheduler");
    let term = leader.campaign().await.unwrap();
    let lock = redlock.lock("scheduler").wait(Duration::ZERO);
    assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Timeout);
    term.release().await.unwrap();
    let lease = lock.acquire().await.unwrap();
    // It is not the candidate's lease, and has no label.
    assert!(!leader.is_leading());
    assert_eq!(leader.current_blocking().unwrap().as_deref(), Some(""));
    let campaign = tokio::spawn(leader.campaign());
    eventually("it campaigns", || redlock.stats().waiting == 1).await;
    lease.release().await.unwrap();
    campaign.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn clones_are_one_candidate() {
    let redlock = memory("leader-clones");
    let leader = redlock.leader("scheduler");
    let (clone, other) = (leader.clone(), leader.clone().ttl(20 * SECOND));
    let term = leader.campaign().await.unwrap();
    assert!(leader.is_leading() && clone.is_leading() && !other.is_leading());
    term.release().await.unwrap();
    assert!(!clone.is_leading());
    assert_eq!(format!("{leader:?}"), "Leader { key: \"lock:scheduler\", .. }");
}
