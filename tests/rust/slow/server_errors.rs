//! Servers with wrong, late or missing replies. Each is an error in time, never a grant and never "held".

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use redlock::{Error, ErrorKind, Redlock};

use crate::support::millis;

async fn refused(url: &str) -> (Error, Duration) {
    let redlock = Redlock::builder([url]).build().unwrap();
    let started = Instant::now();
    let outcome = redlock.lock("job").wait(millis(500)).acquire().await;
    (outcome.expect_err("no node granted it"), started.elapsed())
}

// Slow: what a server can send in half a second is counted.
#[tokio::test]
async fn endless_reply_uses_no_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&sent);
    crate::support::spawn_helper(move || {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(b"$4000000000\r\n");
            while let Ok(count) = stream.write(&vec![b'x'; 65536]) {
                counter.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    let (error, took) = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(took < millis(1500), "{took:?}");
    tokio::time::sleep(millis(500)).await;
    let read = sent.load(std::sync::atomic::Ordering::Relaxed);
    assert!(read < 200 << 20, "{read} bytes were taken");
}
