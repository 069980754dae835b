//! `leader`: bodies that run one after the other, each while its candidate leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};
use redlock::{Error, ErrorKind, Leader, LeaseHandle, Redlock};
use tokio::sync::{mpsc, oneshot};

use crate::support::{Server, client, eventually, servers};

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

/// Leads until `resign` is sent. Sends its label and its fencing token when it begins.
async fn term(
    leader: Leader,
    begun: mpsc::UnboundedSender<u64>,
    resign: oneshot::Receiver<()>,
) -> Result<&'static str, Error> {
    let mut resign = Some(resign);
    leader
        .run(|lease| {
            let (begun, resign) = (begun.clone(), resign.take().unwrap());
            async move {
                begun.send(lease.fencing_token()?).unwrap();
                resign.await.unwrap();
                Ok("resigned")
            }
        })
        .await
}

async fn resignation_hands_over(one: Redlock, two: Redlock) {
    let (begun, mut begins) = mpsc::unbounded_channel();
    let candidates = [(&one, "one"), (&two, "two"), (&one, "three")].map(|(redlock, label)| {
        let (resign, resigned) = oneshot::channel();
        let leader = candidate(redlock, label).fencing(true);
        let task = tokio::spawn(term(leader.clone(), begun.clone(), resigned));
        (leader, label, resign, task)
    });
    let mut last = 0;
    let mut waiting = Vec::from(candidates);
    while !waiting.is_empty() {
        let fence = begins.recv().await.unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        let is_leading = |(leader, ..): &(Leader, _, _, _)| leader.is_leading();
        assert_eq!(waiting.iter().filter(|it| is_leading(it)).count(), 1);
        let at = waiting.iter().position(is_leading).unwrap();
        let (leader, label, resign, task) = waiting.remove(at);
        assert_eq!(leader.current().await.unwrap().as_deref(), Some(label));
        let others = candidate(&two, "none");
        assert_eq!(others.current().await.unwrap().as_deref(), Some(label));
        assert!(!others.is_leading());
        resign.send(()).unwrap();
        assert_eq!(task.await.unwrap().unwrap(), "resigned");
        assert!(!leader.is_leading());
    }
    assert_eq!(candidate(&one, "one").current().await.unwrap(), None);
}

#[tokio::test]
async fn resignation_hands_over_on_every_kind_of_node() {
    resignation_hands_over(memory("leader"), memory("leader")).await;
    let server = Server::start();
    resignation_hands_over(client([&server]), client([&server])).await;
    let five = servers(5);
    resignation_hands_over(client(&five), client(&five)).await;
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
async fn failed_body_resigns() {
    let server = Server::start();
    let leader = client([&server]).leader("scheduler");
    let failed = leader.run(async |_| Err::<(), _>(error())).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Invalid);
    assert_eq!(server.ask("EXISTS lock:scheduler"), ":0");
    assert!(leader.run_blocking(|_| Err::<(), _>(error())).is_err());
    assert_eq!(server.ask("EXISTS lock:scheduler"), ":0");
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
async fn refused_login_ends_a_campaign() {
    let server = Server::with(&["--requirepass", "s3cret-word"]);
    let url = format!("redis://:s3cret-wrong@127.0.0.1:{}", server.port);
    let redlock = Redlock::builder([url]).build().unwrap();
    let error = redlock.leader("scheduler").campaign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
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
async fn leader_has_a_label() {
    let process = std::process::id().to_string();
    let label = async |redlock: &Redlock| {
        let leader = redlock.leader("scheduler");
        let _term = leader.campaign_blocking().unwrap();
        leader.current().await.unwrap().unwrap()
    };
    let found = label(&memory("leader-label")).await;
    assert!(found.ends_with(&format!("-{process}")), "{found}");
    let named = Redlock::builder(["memory://leader-label"]).label("web-3").build().unwrap();
    assert_eq!(label(&named).await, "web-3");
}

#[tokio::test]
async fn max_hold_limits_a_term() {
    let clock = TestClock::new();
    let redlock = Arc::new(TestRedlock::with_clock(&clock).unwrap());
    let (begun, mut begins) = mpsc::unbounded_channel();
    let leader = redlock.leader("scheduler").max_hold(60 * SECOND);
    let task = tokio::spawn(async move {
        leader
            .run(async |lease| {
                begun.send(lease).unwrap();
                std::future::pending::<Result<(), Error>>().await
            })
            .await
    });
    for _ in 0..2 {
        let lease = begins.recv().await.unwrap();
        clock.advance(60 * SECOND).await;
        assert_eq!(lease.lost().await.reason(), Some("max_hold"));
    }
    task.abort();
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

#[tokio::test]
async fn rules_are_checked_first() {
    let redlock = memory("leader-rules");
    for (leader, text) in [
        (redlock.leader(["a", "b"]), "leader() has one name (got 2)"),
        (redlock.leader(""), "name"),
        (redlock.leader("scheduler").ttl(Duration::ZERO), "ttl must be at least"),
        (redlock.leader("scheduler").label("a b"), "label must have 1 to 48"),
        (redlock.leader("scheduler").max_hold(Duration::ZERO), "max_hold must be at least"),
    ] {
        let error = leader.run(async |_| Ok::<_, Error>(())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!leader.is_leading());
        assert_eq!(leader.current().await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
