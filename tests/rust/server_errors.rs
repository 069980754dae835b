//! Servers with wrong, late or missing replies. Each is an error in time, never a grant and never "held".

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::{Error, ErrorKind, Redlock};

use crate::support::{Server, free_port, millis};

async fn refused(url: &str) -> (Error, Duration) {
    let redlock = Redlock::builder([url]).build().unwrap();
    let started = Instant::now();
    let outcome = redlock.lock("job").wait(millis(500)).acquire().await;
    (outcome.expect_err("no node granted it"), started.elapsed())
}

#[tokio::test]
async fn silent_server_fails_the_acquire_after_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (error, took) = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(took >= millis(450), "{took:?}");
}

/// Every caller of a process fails, also those that wait for their turn.
#[tokio::test]
async fn closed_port_ends_an_acquire_without_wait() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let redlock = Redlock::builder([&url]).unavailable_after(millis(1000)).build().unwrap();
    let lock = redlock.lock("job");
    for outcome in join_all((0..8).map(|_| lock.acquire())).await {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.waited().unwrap() >= millis(1000), "{error}");
        let text = error.to_string();
        assert!(text.contains("refused") && text.contains("not available for 1"), "{text}");
        assert!(text.contains("Gave up after unavailable_after (1 s)"), "{text}");
        assert_eq!(error.nodes()[0].url, url);
    }
}

#[tokio::test]
async fn passwords_work_and_are_not_shown() {
    let server = Server::with(&["--requirepass", "s3cret-word"]);
    let place = format!("127.0.0.1:{}", server.port);
    let good = Redlock::builder([format!("redis://:s3cret-word@{place}/2")]).build().unwrap();
    good.lock("job").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(good.nodes(), [format!("redis://{place}/2")]);
    let named = Redlock::builder([format!("redis://default:s3cret-word@{place}")]).build().unwrap();
    named.lock("job").acquire().await.unwrap().release().await.unwrap();
    for (url, word) in [
        (format!("redis://{place}"), "NOAUTH"),
        (format!("redis://:wr0ng-word@{place}"), "WRONGPASS"),
        (format!("redis://nobody:wr0ng-word@{place}"), "WRONGPASS"),
    ] {
        let (error, _) = refused(&url).await;
        assert!(error.to_string().contains(word), "{error}");
        let all = format!("{error} {error:?} {good:?}");
        assert!(!all.contains("s3cret") && !all.contains("wr0ng"), "{all}");
    }
}
