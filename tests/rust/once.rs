//! `once`: what is remembered, and what leaves no memory. `conformance/test_once.py` has the rest.

use std::time::Duration;

use futures_util::FutureExt;
use redlock::{Error, ErrorKind, Once, Redlock};
use tokio::sync::oneshot;

use crate::support::{Server, client, eventually, servers};

const DAY: Duration = Duration::from_secs(86_400);

fn payment(redlock: &Redlock) -> Once {
    redlock.once("payment", DAY).ttl(Duration::from_secs(20))
}

fn error() -> Error {
    Redlock::builder(["memory://"]).build().unwrap().lock("").acquire_blocking().unwrap_err()
}

/// Runs the body and returns whether it ran.
async fn ran(once: &Once) -> bool {
    once.run(async |_| Ok::<_, Error>(())).await.unwrap().is_some()
}

#[tokio::test]
async fn success_is_remembered() {
    let once = payment(&Redlock::builder(["memory://"]).build().unwrap());
    assert_eq!(once.run(async |_| Ok::<_, Error>(42)).await.unwrap(), Some(42));
    assert_eq!(once.run(async |_| Ok::<_, Error>(42)).await.unwrap(), None);
    assert_eq!(once.run_blocking(|_| Ok::<_, Error>(42)).unwrap(), None);
    assert_eq!(format!("{once:?}"), "Once { key: \"lock:payment\", .. }");
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
