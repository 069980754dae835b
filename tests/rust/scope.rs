//! The first code of a Rust user: names of any kind, an awaited lock, a body under a lease, nodes from the environment.

use std::borrow::Cow;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlock::{Error, ErrorKind, LeaseHandle, Redlock};
use tokio::time::timeout;

use crate::support::{Server, Silent, builder, client, eventually, eventually_blocking, millis};

fn memory() -> Redlock {
    Redlock::builder(["memory://scope"]).build().unwrap()
}

#[test]
fn accepts_names_of_any_string_type() {
    let redlock = memory();
    let (one, several) = ("a".to_owned(), ["a".to_owned(), "b".to_owned()]);
    for lock in [redlock.lock(&one), redlock.lock(Cow::from("a")), redlock.lock(one.clone())] {
        assert_eq!(lock.names(), ["a"]);
    }
    let slice: &[String] = &several;
    let (strs, both): (&[&str], &[&str; 2]) = (&["a", "b"], &["a", "b"]);
    let vector = several.to_vec();
    let all = [
        redlock.lock(vec!["a", "b"]),
        redlock.lock(vec!["a".to_owned(), "b".to_owned()]),
        redlock.lock(&vector),
        redlock.lock(&several),
        redlock.lock(slice),
        redlock.lock(strs),
        redlock.lock(both),
        redlock.lock(vector),
        redlock.lock(["a", "b"]),
        redlock.lock(several.clone()),
    ];
    assert!(all.iter().all(|lock| lock.names() == ["a", "b"]));
}

#[tokio::test]
async fn lock_can_be_awaited() -> Result<(), Error> {
    let redlock = memory();
    let lock = redlock.lock("awaited").wait(millis(50));
    let lease = (&lock).await?;
    assert_eq!((&lock).await.unwrap_err().kind(), ErrorKind::Timeout);
    lease.release().await?;
    lock.await?.release().await?;
    redlock.lock("awaited").await?.release().await
}

#[tokio::test]
async fn acquire_within_overrides_wait() {
    let redlock = memory();
    let short = redlock.lock("waited").wait(Duration::ZERO);
    let lease = short.acquire_within(None).await.unwrap();
    assert_eq!(short.acquire_within(millis(20)).await.unwrap_err().kind(), ErrorKind::Timeout);
    let forever = [short.acquire_within(None), short.clone().wait(None).acquire_within(None)];
    let long = tokio::spawn(async move { futures_util::future::join_all(forever).await });
    assert!(timeout(millis(200), short.clone().wait(None).acquire()).await.is_err());
    assert!(!long.is_finished());
    long.abort();
    drop(lease);

    let node = Silent::listen();
    let lock = builder([node.url()]).build().unwrap().lock("waited");
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    let error = lock.acquire_within(century).await.unwrap_err();
    assert_eq!((error.kind(), error.resource()), (ErrorKind::Invalid, Some("lock:waited")));
    assert!(error.to_string().contains("Omit it to wait forever"), "{error}");
    assert!(!node.called());
}

#[tokio::test]
async fn using_returns_the_value_and_leaves_no_key() {
    let server = Server::start();
    let lock = client([&server]).lock("body");
    let copy = lock.clone();
    let value = lock.using(async |lease| {
        let refused = copy.try_acquire().await.unwrap();
        assert!(refused.is_none() && lease.is_held());
        7
    });
    assert_eq!(value.await.unwrap(), 7);
    assert_eq!(server.ask("DBSIZE"), ":0");
    // The body's own errors are returned unchanged, a release in the body ends the lease, and a closure that returns a
    // future is accepted.
    let body = lock.using(|lease: LeaseHandle| async move {
        lease.release().await.map(|()| "3x".parse::<u8>())
    });
    assert!(tokio::spawn(body).await.unwrap().unwrap().unwrap().is_err());
    assert_eq!(server.ask("DBSIZE"), ":0");
}

/// Sets a flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn loss_cancels_the_body() {
    let server = Server::start();
    let redlock = client([&server]);
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Dropped(Arc::clone(&stopped));
    let body = redlock.lock("body").using(async |_| {
        let _flag = flag;
        std::future::pending::<()>().await;
    });
    let body = tokio::spawn(body);
    eventually("it is held", || server.ask("EXISTS lock:body") == ":1").await;
    assert!(redlock.force_release("body").await.unwrap());
    let error = timeout(millis(10_000), body).await.unwrap().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Lost, Some("missing")), "{error}");
    assert!(stopped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn body_that_outlives_its_lease_returns_lost() {
    let redlock = memory();
    let lock = redlock.lock("late").ttl(millis(100)).renew(false);
    // It blocks the thread, so it cannot be cancelled.
    let late = async |lease: LeaseHandle| eventually_blocking("the loss", || !lease.is_held());
    let error = lock.using(late).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Lost, Some("expired")), "{error}");
}

#[tokio::test]
async fn dropped_body_leaves_no_key() {
    let server = Server::start();
    let lock = client([&server]).lock("body");
    let body = lock.using(async |_| std::future::pending::<()>().await);
    assert!(timeout(millis(500), body).await.is_err());
    let next = timeout(millis(10_000), lock.acquire()).await.unwrap().unwrap();
    next.release().await.unwrap();
    assert_eq!(server.ask("DBSIZE"), ":0");
}

#[tokio::test]
async fn unconfirmed_release_keeps_the_value() {
    let mut server = Server::start();
    let lock = client([&server]).lock("body").ttl(millis(60_000));
    let value = lock.using(async |_| {
        server.kill();
        9
    });
    assert_eq!(value.await.unwrap(), 9);
}

const NODES: &str = "REDLOCK_TEST_FROM_ENV";

/// The output of this program with these variables set, which names its nodes.
fn with_variables(variables: &[(&str, &str)]) -> Output {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["scope::reads_nodes_from_the_environment", "--exact", "--nocapture"])
        .env(NODES, "1");
    this.env_remove("REDLOCK_NODES").env_remove("REDIS_URL");
    this.envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn reads_nodes_from_the_environment() {
    if std::env::var_os(NODES).is_some() {
        let client = redlock::Builder::from_env().unwrap().key_prefix("app:").build().unwrap();
        assert_eq!(client.lock("job").key(), "app:job");
        println!("nodes: {:?}", Redlock::from_env().unwrap().nodes());
        return;
    }
    let cases: [(&[(&str, &str)], &str); 7] = [
        (&[], r#"["redis://127.0.0.1:6379"]"#),
        (&[("REDIS_URL", "redis://b")], r#"["redis://b:6379"]"#),
        (&[("REDIS_URL", " \"REDIS://b\"\n")], r#"["redis://b:6379"]"#),
        (&[("REDLOCK_NODES", "'redis://b redis://c'")], r#"["redis://b:6379", "redis://c:6379"]"#),
        (
            &[("REDLOCK_NODES", "redis://b,redis://c"), ("REDIS_URL", "redis://a")],
            r#"["redis://b:6379", "redis://c:6379"]"#,
        ),
        (
            &[("REDLOCK_NODES", "redis+cluster://b, c,,redis://d,")],
            r#"["redis+cluster://b:6379,c:6379", "redis://d:6379"]"#,
        ),
        (&[("REDLOCK_NODES", " ")], r#"["redis://127.0.0.1:6379"]"#),
    ];
    for (variables, expected) in cases {
        let out = with_variables(variables);
        let out = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.contains(&format!("nodes: {expected}")), "{variables:?}: {out}");
    }
}

#[test]
fn names_the_variable_with_an_invalid_url() {
    for variable in ["REDIS_URL", "REDLOCK_NODES"] {
        let out = with_variables(&[(variable, "redis://b:s3cret")]);
        let output = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            output.contains(&format!("the environment variable {variable} is wrong")),
            "{output}"
        );
        assert!(!output.contains("s3cret"), "{output}");
    }
}

#[test]
fn host_must_not_be_empty_in_the_environment_either() {
    let out = with_variables(&[("REDLOCK_NODES", "redis+cluster://b,,c")]);
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(output.contains("it has no host"), "{output}");
}

#[cfg(unix)]
#[test]
fn invalid_utf8_in_the_environment_is_not_shown() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["scope::reads_nodes_from_the_environment", "--exact", "--nocapture"])
        .env(NODES, "1");
    let out = this.env("REDIS_URL", OsStr::from_bytes(b"redis://secret\xff@a")).output().unwrap();
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        output.contains("REDIS_URL is not valid UTF-8") && !output.contains("secret"),
        "{output}"
    );
}
