//! A server that sends short texts as simple strings where Redis sends bulk strings, as fakeredis does over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use redlock::{ErrorKind, Redlock};

use crate::support::{Server, builder, millis, spawn_helper};

/// Translates the replies of a server. Returns its port.
fn translated(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn_helper(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
            let ends = || (client.try_clone().unwrap(), server.try_clone().unwrap());
            let ((mut asking, mut asked), (to, from)) = (ends(), ends());
            spawn_helper(move || {
                let _ = std::io::copy(&mut asking, &mut asked);
                let _ = asked.shutdown(Shutdown::Both);
            });
            spawn_helper(move || {
                let mut replies = BufReader::new(from);
                while forward(&mut replies, &to).is_some() {}
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

/// Forwards one line, or a text as a simple string if it is a single line.
fn forward(replies: &mut BufReader<TcpStream>, mut to: &TcpStream) -> Option<()> {
    let mut line = Vec::new();
    if replies.read_until(b'\n', &mut line).ok()? == 0 {
        return None;
    }
    let length = std::str::from_utf8(&line[1..]).ok()?.trim().parse::<usize>();
    if let (b'$' | b'=', Ok(length)) = (line[0], length) {
        let mut text = vec![0; length + 2];
        replies.read_exact(&mut text).ok()?;
        if line[0] == b'$' && !text[..length].iter().any(|byte| b"\r\n".contains(byte)) {
            line = b"+".to_vec();
        }
        line.extend(text);
    }
    to.write_all(&line).ok()
}

/// Runs every operation of a lock.
async fn operations(server: &Server, redlock: &Redlock) {
    let lease = redlock.lock("job").try_acquire().await.unwrap().expect("free");
    assert_eq!(server.ask("GET lock:job"), lease.token());
    assert!(redlock.lock("job").try_acquire().await.unwrap().is_none());
    let error = redlock.lock("job").wait(millis(400)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    lease.extend(millis(5000)).await.unwrap();
    let seen = redlock.lock("job").inspect().await.unwrap();
    assert!(seen.held, "{seen:?}");
    let waiting = tokio::spawn(redlock.lock("job").wait(millis(20_000)).acquire());
    lease.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(server.ask("EXISTS lock:job"), ":0");
    let fenced = redlock.lock(["a", "b"]).fencing(true).acquire().await.unwrap();
    fenced.fencing_token().unwrap();
    fenced.release().await.unwrap();
}

#[tokio::test]
async fn simple_strings_are_accepted_as_texts() {
    let server = Server::start();
    let url = format!("redis://127.0.0.1:{}", translated(server.port));
    for url in [url.clone(), format!("{url}?protocol=2")] {
        let redlock = builder([url]).build().unwrap();
        operations(&server, &redlock).await;
        redlock.shutdown(millis(5000)).await.unwrap();
    }
}

#[tokio::test]
async fn simple_string_of_another_holder_is_not_a_grant() {
    let server = Server::start();
    let redlock = builder([format!("redis://127.0.0.1:{}", translated(server.port))]).build();
    let redlock = redlock.unwrap();
    for other in ["somebody", "QUEUED", "1"] {
        assert_eq!(server.ask(&format!("SET lock:job {other} PX 60000")), "+OK");
        let refused = redlock.lock("job").try_acquire().await.unwrap();
        assert!(refused.is_none(), "{other}");
        let error = redlock.lock("job").wait(millis(400)).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{other}: {error}");
        assert_eq!(server.ask("GET lock:job"), other);
    }
}
