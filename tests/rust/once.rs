//! `once`: a body that runs unless it ran with success within a given time.

use std::time::Duration;

use futures_util::FutureExt;
use redlock::{Error, ErrorKind, Once, Redlock};
use tokio::sync::oneshot;

use crate::support::{Server, client, eventually, servers};

const DAY: Duration = Duration::from_secs(86_400);

fn payment(redlock: &Redlock) -> Once {
    redlock.once("payment", DAY).ttl(Duration::from_secs(20))
}

fn memory(name: &str) -> Redlock {
    Redlock::builder([format!("memory://{name}")]).build().unwrap()
}

fn error() -> Error {
    Redlock::builder(["memory://"]).build().unwrap().lock("").acquire_blocking().unwrap_err()
}

/// Runs the body and returns whether it ran.
async fn ran(once: &Once) -> bool {
    once.run(async |_| Ok::<_, Error>(())).await.unwrap().is_some()
}

async fn success_is_remembered(one: Redlock, two: Redlock) {
    let charge = async |redlock: &Redlock| payment(redlock).run(async |_| Ok::<_, Error>(42)).await;
    assert_eq!(charge(&one).await.unwrap(), Some(42));
    for redlock in [&one, &two] {
        assert_eq!(charge(redlock).await.unwrap(), None);
        // A lock on the same name waits for the rest.
        let error = redlock.lock("payment").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.remaining() > Some(DAY * 99 / 100), "{error}");
    }
    assert_eq!(payment(&two).run_blocking(|_| Ok::<_, Error>(42)).unwrap(), None);
    let stats = two.stats();
    assert_eq!((stats.refused, stats.timed_out), (2, 1));
    // The memory can be deleted.
    assert!(two.force_release("payment").await.unwrap());
    assert_eq!(charge(&two).await.unwrap(), Some(42));
}

#[tokio::test]
async fn success_is_remembered_on_every_kind_of_node() {
    success_is_remembered(memory("once"), memory("once")).await;
    let server = Server::start();
    success_is_remembered(client([&server]), client([&server])).await;
    let five = servers(5);
    success_is_remembered(client(&five), client(&five)).await;
}

#[tokio::test]
async fn failed_body_leaves_no_memory() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let failed = payment(&one).run(async |_| Err::<(), _>(error())).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Invalid);
    assert_eq!(server.ask("EXISTS lock:payment"), ":0");
    assert!(payment(&one).run_blocking(|_| Err::<(), _>(error())).is_err());
    assert_eq!(server.ask("EXISTS lock:payment"), ":0");
    // A body that panics, and one that is dropped.
    let panics = payment(&one).run(async |_| -> Result<(), Error> { panic!("body") });
    assert!(std::panic::AssertUnwindSafe(panics).catch_unwind().await.is_err());
    eventually("deleted", || server.ask("EXISTS lock:payment") == ":0").await;
    let (begun, begins) = oneshot::channel();
    let task = tokio::spawn(payment(&one).run(async move |_| {
        begun.send(()).unwrap();
        std::future::pending::<Result<(), Error>>().await
    }));
    begins.await.unwrap();
    task.abort();
    eventually("deleted", || server.ask("EXISTS lock:payment") == ":0").await;
    // A body that releases its lease has no memory either, because others could run it since.
    let released = payment(&one).run(async |lease| lease.release().await).await;
    assert_eq!(released.unwrap(), Some(()));
    assert!(ran(&payment(&two)).await);
}

/// A body that ends by a revoked lease did not succeed.
#[tokio::test]
async fn revoked_body_leaves_no_memory() {
    let (one, two) = (memory("once-revoked"), memory("once-revoked"));
    let lost = payment(&one)
        .run(async |_| {
            assert_eq!(one.release_all().await?, 1);
            std::future::pending::<Result<(), Error>>().await
        })
        .await;
    assert_eq!(lost.unwrap_err().reason(), Some("revoked"));
    assert!(ran(&payment(&two)).await);
}

/// Another caller may run the body since the loss. No further caller may then learn that the body ran before.
#[tokio::test]
async fn body_that_lost_its_lease_leaves_no_memory() {
    let three = servers(3);
    let (one, two) = (client(&three), client(&three));
    let lost = payment(&one).run_blocking(|lease| {
        while three.iter().any(|it| it.ask("EXISTS lock:payment") == ":0") {}
        for forgetful in &three[1..] {
            forgetful.ask("DEL lock:payment");
        }
        while lease.is_held() {}
        Ok::<_, Error>(())
    });
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::Lost);
    let is_deleted = || {
        let value = three[0].ask("GET lock:payment");
        assert!(!value.starts_with("kept:"), "{value}");
        three[0].ask("EXISTS lock:payment") == ":0"
    };
    eventually("deleted", is_deleted).await;
    assert!(ran(&payment(&two)).await);
}

/// The second delivery of a callback learns that the first one is in progress, or waits for its end.
#[tokio::test]
async fn concurrent_run_is_refused_or_waits() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    for succeeds in [false, true] {
        let (end, ends) = oneshot::channel::<()>();
        let (begun, begins) = oneshot::channel();
        let first = tokio::spawn(payment(&one).label("first").run(async move |_| {
            begun.send(()).unwrap();
            ends.await.unwrap();
            if succeeds { Ok(()) } else { Err(error()) }
        }));
        begins.await.unwrap();
        let error = payment(&two).run(async |_| Ok::<_, Error>(())).await.unwrap_err();
        assert_eq!((error.kind(), error.holder()), (ErrorKind::Timeout, Some("first")), "{error}");
        let waits = |redlock| payment(redlock).wait(None).run(async |_| Ok::<_, Error>(()));
        let waiting =
            [tokio::spawn(waits(&two)), tokio::spawn(waits(&two)), tokio::spawn(waits(&one))];
        eventually("they wait", || two.stats().waiting == 2 && one.stats().waiting == 1).await;
        end.send(()).unwrap();
        assert_eq!(first.await.unwrap().is_ok(), succeeds);
        let mut ran = 0;
        for waiting in waiting {
            ran += usize::from(waiting.await.unwrap().unwrap().is_some());
        }
        // One of them runs the body that failed, and the others are skipped.
        assert_eq!(ran, usize::from(!succeeds), "{succeeds}");
        one.force_release("payment").await.unwrap();
    }
}

/// A process that dies while its body runs leaves the key as it is then.
#[tokio::test]
async fn running_body_has_the_key_for_its_ttl_only() {
    let server = Server::start();
    let redlock = client([&server]);
    let run = payment(&redlock).run(async |_| {
        let left = server.ask("PTTL lock:payment").trim_start_matches(':').parse().unwrap();
        Ok::<i64, Error>(left)
    });
    let left = run.await.unwrap().unwrap();
    assert!((1..=20_000).contains(&left), "{left}");
}

/// A key is kept only after a success, so one node that has it is enough to refuse a run that is not granted anyway.
#[tokio::test]
async fn refused_run_is_skipped_if_one_node_remembers() {
    let three = servers(3);
    let (one, two) = (client(&three), client(&three));
    let everywhere = || three.iter().all(|it| it.ask("EXISTS lock:payment") == ":1");
    let run = payment(&one).run(async |_| {
        eventually("granted", everywhere).await;
        Ok::<_, Error>(())
    });
    run.await.unwrap().unwrap();
    let remembers = |it: &Server| it.ask("GET lock:payment").starts_with("kept:");
    eventually("kept", || three.iter().all(remembers)).await;
    // One node forgot it, and another one has the vote of a competing attempt.
    three[1].ask("SET lock:payment other PX 60000");
    three[2].ask("DEL lock:payment");
    assert!(!ran(&payment(&two)).await);
    // Two nodes that forgot are a quorum, and the body runs again.
    for forgetful in &three[1..] {
        forgetful.ask("DEL lock:payment");
    }
    assert!(ran(&payment(&two)).await);
}

#[tokio::test]
async fn rules_are_checked_first() {
    let redlock = memory("once-rules");
    for (once, text) in [
        (redlock.once("payment", Duration::ZERO), "remember must be above 0"),
        (redlock.once("payment", DAY * 4000), "remember must be at most ten years"),
        (redlock.once(["a", "b"], DAY), "once() has one name (got 2)"),
        (redlock.once("payment", DAY).ttl(Duration::ZERO), "ttl must be at least"),
    ] {
        let error = once.run(async |_| Ok::<_, Error>(())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(format!("{:?}", payment(&redlock)), "Once { key: \"lock:payment\", .. }");
}
