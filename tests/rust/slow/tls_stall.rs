//! A TLS connection with many requests while its server is paused.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use futures_util::future::join_all;
use redlock::Redlock;

use crate::support::millis;
use crate::support::{Certificates, trusting};

const NAME: usize = 12_000;

/// How many bytes the buffers on the way to a server hold if it reads nothing.
fn buffer_capacity() -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut taken = 0;
    for _ in 0..5 {
        while let Ok(count) = stream.write(&[0; 1000]) {
            taken += count;
        }
        std::thread::sleep(millis(40));
    }
    taken
}

// Slow: a server is frozen 20 times.
#[tokio::test]
async fn requests_during_a_pause_are_sent_after_it() {
    let certificates = Certificates::new();
    let (server, port) = certificates.server("no");
    // Around that size, some of the last bytes stay in the TLS layer after all were written to it.
    let middle = buffer_capacity() / (NAME + 200);
    let mut lost = Vec::new();
    for count in (middle.saturating_sub(45)..middle + 16).step_by(3) {
        let redlock = Redlock::builder([format!("rediss://127.0.0.1:{port}")])
            .tls(trusting(&certificates.path("ca.crt")))
            .node_timeout(millis(2500))
            .build()
            .unwrap();
        redlock.lock("warm").acquire().await.unwrap().release().await.unwrap();
        server.signal(libc::SIGSTOP);
        let ask = |at: usize| {
            let name = format!("{count}-{at}-{}", "x".repeat(NAME));
            redlock.lock(name).ttl(Duration::from_secs(60)).try_acquire()
        };
        let asked: Vec<_> = (0..count).map(ask).map(tokio::spawn).collect();
        tokio::time::sleep(millis(200)).await;
        server.signal(libc::SIGCONT);
        let answers = join_all(asked).await;
        let unanswered = answers.iter().filter(|answer| !matches!(answer, Ok(Ok(Some(_))))).count();
        if unanswered > 0 {
            lost.push((count, unanswered));
        }
        server.ask("FLUSHALL");
    }
    assert!(lost.is_empty(), "never sent: {lost:?}");
}
