//! Errors that no retry can change are returned immediately, whatever `wait` is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::Duration;

use redlock::testing::{Clock, Instant, Sleep, SystemClock};
use redlock::{Credentials, Error, ErrorKind, Redlock};

use crate::support::{
    Cluster, Proxy, RIGHTS, SERVERS_PASSWORD, Sentinels, Server, builder, client, eventually,
    millis,
};

/// A clock so slow that no second passes on it. Its timers take their usual time.
struct Slow;

impl Clock for Slow {
    fn now(&self) -> Instant {
        let nanos = u64::try_from(SystemClock.now().as_nanos()).unwrap();
        Instant::from_start(Duration::from_nanos(nanos / 1000))
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(SystemClock.now() + at.since(self.now()))
    }
}

/// How often the server has replied with this error.
fn errors(server: &Server, code: &str) -> usize {
    let count = server.info("errorstats", &format!("errorstat_{code}"));
    count.map_or(0, |count| count.trim_start_matches("count=").parse().unwrap())
}

/// The error of an acquire that may wait forever.
async fn error_of(redlock: &Redlock) -> Error {
    redlock.lock("job").acquire().await.expect_err("the server refuses")
}

fn with_password() -> Server {
    Server::with(&["--requirepass", "s3cret-word"])
}

fn url_as(server: &Server, login: &str) -> String {
    format!("redis://{login}127.0.0.1:{}", server.port)
}

#[tokio::test]
async fn refused_login_or_database_ends_an_acquire_at_once() {
    let server = with_password();
    let open = Server::start();
    assert_eq!(
        open.ask(&format!("ACL SETUSER app reset on >s3cret-word {RIGHTS} -evalsha")),
        "+OK"
    );
    for (url, words) in [
        (url_as(&server, ""), "NOAUTH"),
        (url_as(&server, ":s3cret-wrong@"), "WRONGPASS"),
        (url_as(&server, "nobody:s3cret-wrong@"), "WRONGPASS"),
        (format!("{}?protocol=2", url_as(&server, ":s3cret-wrong@")), "WRONGPASS"),
        (url_as(&open, "app:s3cret-word@"), "may not run EVALSHA"),
        (format!("{}/99", url_as(&open, "")), "cannot select database 99"),
    ] {
        let redlock = Redlock::builder([url]).build().unwrap();
        for wait in [None, Some(millis(3_600_000))] {
            let lock = redlock.lock("job");
            let lock = if let Some(wait) = wait { lock.wait(wait) } else { lock };
            let error = lock.acquire().await.expect_err(words);
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
}

/// Between two attempts to connect, the client knows only the refusal of the last one.
#[tokio::test]
async fn acquire_with_a_wait_does_not_fail_with_an_earlier_refusal() {
    let server = Server::start();
    for _ in 0..5 {
        let before = format!("ACL SETUSER app reset on >s3cret-new {RIGHTS}");
        assert_eq!(server.ask(&before), "+OK");
        let redlock = Redlock::builder([url_as(&server, "app:s3cret-word@")]).build().unwrap();
        let error = error_of(&redlock).await;
        assert!(error.to_string().contains("WRONGPASS"), "{error}");
        assert_eq!(server.ask("ACL SETUSER app >s3cret-word"), "+OK");
        let lock = redlock.lock("job").wait(millis(3_600_000));
        lock.acquire().await.expect("the login works now").release().await.unwrap();
    }
}

#[tokio::test]
async fn missing_key_permission_ends_an_acquire_at_once() {
    let server = Server::start();
    let rights = RIGHTS.replace("lock:", "other:");
    assert_eq!(server.ask(&format!("ACL SETUSER app reset on >s3cret-word {rights}")), "+OK");
    let redlock = Redlock::builder([url_as(&server, "app:s3cret-word@")]).build().unwrap();
    let error = error_of(&redlock).await;
    assert!(error.to_string().contains("NOPERM"), "{error}");
    // The refusal is not remembered. The next call tries again.
    assert_eq!(server.ask(&format!("ACL SETUSER app {RIGHTS}")), "+OK");
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn names_a_sentinel_port_without_showing_a_script() {
    let sentinels = Sentinels::start(1, 0);
    let redlock = builder([format!("redis://127.0.0.1:{}", sentinels.ports[0])]).build().unwrap();
    let error = error_of(&redlock).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let text = error.to_string();
    assert!(text.contains("it is a Redis Sentinel"), "{text}");
    assert!(text.contains("Use redis+sentinel://host:port/service"), "{text}");
    assert!(!text.contains("KEYS"), "{text}");
}

#[tokio::test]
async fn refused_login_ends_an_acquire_in_sentinel_and_cluster() {
    let sentinels = Sentinels::with(1, 0, Some("s3cret-sentinels"));
    let right = sentinels.url(0);
    for url in [
        right.split('?').next().unwrap().to_owned(),
        right.replace("s3cret-sentinels", "s3cret-wrong"),
        right.replace(SERVERS_PASSWORD, "s3cret-wrong"),
    ] {
        let error = error_of(&builder([url]).build().unwrap()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    let cluster = Cluster::start(1, false);
    let url = cluster.url().replace("//", "//nobody:s3cret-wrong@");
    let error = error_of(&builder([url]).build().unwrap()).await;
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
}

#[tokio::test]
async fn only_a_majority_of_refusals_ends_an_acquire() {
    let (refusing, open) = ([with_password(), with_password()], Server::start());
    let url = |server: &Server| url_as(server, "");
    // One of the other two nodes is down. No quorum is possible now, but the node may return.
    let down = Server::start();
    let urls = [url(&refusing[0]), url(&down), url(&open)];
    let redlock = builder(urls).restart_guard(millis(0)).build().unwrap();
    let lease = redlock.lock("job").acquire().await.expect("two of three grant it");
    lease.release().await.unwrap();
    down.signal(libc::SIGSTOP);
    let waiting = tokio::spawn(redlock.lock("job").acquire());
    eventually("it waits", || redlock.stats().waiting == 1).await;
    down.signal(libc::SIGCONT);
    waiting.await.unwrap().expect("a quorum is back").release().await.unwrap();
    let urls = [url(&refusing[0]), url(&refusing[1]), url(&open)];
    let redlock = builder(urls).restart_guard(millis(0)).build().unwrap();
    let error = error_of(&redlock).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("NOAUTH"), "{error}");
}

#[tokio::test]
async fn waits_for_a_temporary_refusal_to_end() {
    // An error that does not concern the user.
    let server = Server::with(&["--maxmemory", "1"]);
    let redlock = client([&server]);
    let waiting = tokio::spawn(redlock.lock("job").acquire());
    let denied = || server.info("errorstats", "errorstat_OOM").is_some();
    eventually("it is refused", denied).await;
    assert_eq!(server.ask("CONFIG SET maxmemory 0"), "+OK");
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn requests_new_credentials_after_a_refusal() {
    let server = with_password();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let redlock = Redlock::builder([url_as(&server, "")])
        .credentials(move || {
            let old = count.fetch_add(1, Ordering::SeqCst) == 0;
            let word = if old { "s3cret-old" } else { "s3cret-word" };
            async move { Ok::<_, ()>(Credentials::new(word)) }
        })
        .build()
        .unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let wrong = Redlock::builder([url_as(&server, "")])
        .credentials(async || Ok::<_, ()>(Credentials::new("s3cret-wrong")))
        .build()
        .unwrap();
    let error = error_of(&wrong).await;
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
}

#[tokio::test]
async fn brief_login_or_permission_change_ends_no_acquire() {
    let server = Server::start();
    let rights = |keys: &str| RIGHTS.replace("lock:", keys);
    for (before, after, code) in [
        (format!("on >s3cret-new {RIGHTS}"), ">s3cret-word".to_owned(), "WRONGPASS"),
        (format!("on >s3cret-word {}", rights("other:")), RIGHTS.to_owned(), "NOPERM"),
        (format!("on >s3cret-word {RIGHTS} -pttl"), RIGHTS.to_owned(), "NOPERM"),
    ] {
        assert_eq!(server.ask(&format!("ACL SETUSER app reset {before}")), "+OK");
        let url = url_as(&server, "app:s3cret-word@");
        let redlock = Redlock::builder([url]).clock(Arc::new(Slow)).build().unwrap();
        let said = errors(&server, code);
        let waiting = tokio::spawn(redlock.lock("job").acquire());
        eventually("several refusals", || errors(&server, code) >= said + 4).await;
        assert!(!waiting.is_finished(), "{code}");
        assert_eq!(server.ask(&format!("ACL SETUSER app {after}")), "+OK");
        waiting.await.unwrap().expect(code).release().await.unwrap();
    }
}

#[tokio::test]
async fn wrong_server_ends_an_acquire_only_after_a_second() {
    let (server, sentinels) = (Server::start(), Sentinels::start(1, 0));
    let lacking = Server::with(&["--rename-command", "DEL", ""]);
    for (wrong, kind) in
        [(sentinels.ports[0], ErrorKind::Invalid), (lacking.port, ErrorKind::Unsupported)]
    {
        let proxy = Proxy::to(server.port);
        let redlock = builder([proxy.url()]).clock(Arc::new(Slow)).build().unwrap();
        redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
        proxy.redirect_to(wrong);
        let before = proxy.connections.load(Ordering::SeqCst);
        let waiting = tokio::spawn(redlock.lock("job").acquire());
        let tries = || proxy.connections.load(Ordering::SeqCst) - before;
        eventually("several attempts", || tries() >= 4).await;
        assert!(!waiting.is_finished(), "{kind:?}");
        proxy.redirect_to(server.port);
        waiting.await.unwrap().unwrap().release().await.unwrap();
        // If it stays, the acquire ends.
        let redlock = builder([proxy.url()]).build().unwrap();
        redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
        proxy.redirect_to(wrong);
        assert_eq!(error_of(&redlock).await.kind(), kind);
    }
}
