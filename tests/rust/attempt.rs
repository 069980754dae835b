//! One free key is requested with the cheapest command. In every other case a script decides.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use redlock::{Error, ErrorKind, Redlock};

use crate::fake::command;
use crate::support::{Server, client, eventually, millis, servers};

fn names(error: &Error, word: &str) -> bool {
    error.nodes()[0].error.as_deref().is_some_and(|cause| cause.contains(word))
}

#[tokio::test]
async fn runs_a_script_only_for_a_taken_key() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    // The client connected before. Without the right it would get no connection.
    one.lock("job").inspect().await.unwrap();
    two.lock("job").inspect().await.unwrap();
    server.ask("ACL SETUSER default -evalsha");
    let lease = one.lock("job").acquire().await.unwrap();
    let error = two.lock("job").wait(millis(100)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(names(&error, "NOPERM"), "{error}");
    server.ask("ACL SETUSER default +evalsha");
    let error = two.lock("job").wait(millis(100)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.remaining().unwrap() > Duration::from_secs(5), "{error}");
    lease.release().await.unwrap();
}

#[tokio::test]
async fn names_and_preserves_a_key_of_another_type() {
    let server = Server::start();
    server.ask("HSET lock:job field value");
    let error = client([&server]).lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(server.ask("HGET lock:job field"), "value");
}

#[tokio::test]
async fn full_server_refuses_acquires_but_releases() {
    let server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("held").fencing(true).acquire().await.unwrap();
    server.ask("CONFIG SET maxmemory-policy noeviction");
    server.ask("CONFIG SET maxmemory 1");
    let error = redlock.lock("job").wait(millis(100)).acquire().await.unwrap_err();
    assert!(names(&error, "OOM"), "{error}");
    lease.extend(millis(30_000)).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(server.ask("EXISTS lock:held"), ":0");
}

/// A caller that gives up between the two questions sends no second one, because its delete would arrive before it.
#[tokio::test]
async fn cancelled_attempt_leaves_no_key_at_any_point() {
    let nodes = servers(3);
    let (one, two) = (client(&nodes), client(&nodes));
    for round in 0..60_u64 {
        let lock = two.lock("job").ttl(Duration::from_secs(600));
        let lease = one.lock("job").acquire().await.unwrap();
        let attempt = tokio::spawn(lock.acquire());
        // A timer is too coarse for a time between two questions.
        let moment = Instant::now() + Duration::from_micros(round * 20);
        while Instant::now() < moment {
            tokio::task::yield_now().await;
        }
        drop(lease.release());
        attempt.abort();
        let _ = attempt.await;
        // A key that is left behind stays for its TTL of ten minutes.
        eventually("no key", || nodes.iter().all(|node| node.ask("DBSIZE") == ":0")).await;
    }
}

/// A server that grants nothing and reports the last caller as the owner of each key.
fn rogue_server(to_set: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    crate::support::spawn_helper(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_rogue_replies(to_set, stream));
        }
    });
    url
}

fn serve_rogue_replies(to_set: &str, mut stream: TcpStream) -> Option<()> {
    let mut asked = BufReader::new(stream.try_clone().unwrap());
    let mut token = String::new();
    loop {
        let words = command(&mut asked)?;
        let echo = |word: &str| format!("${}\r\n{word}\r\n", word.len());
        let answer = match words[0].as_str() {
            "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".into(),
            "SET" => {
                token.clone_from(&words[2]);
                to_set.to_owned()
            }
            "GET" | "GETRANGE" => echo(&token),
            "EVALSHA" => {
                format!("*4\r\n:0\r\n:60000\r\n$0\r\n\r\n{}", echo(words.get(4).or(words.get(3))?))
            }
            _ => "+OK\r\n".into(),
        };
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

#[tokio::test]
async fn failed_set_is_not_a_grant_even_if_the_reply_names_us() {
    let client = |to_set| {
        // So short that there is time for a second question, and the cheap one comes first.
        let builder = Redlock::builder([rogue_server(to_set)]).node_timeout(millis(200));
        builder.build().unwrap()
    };
    for to_set in ["$-1\r\n", "_\r\n", "-OOM too much\r\n", "-READONLY a replica\r\n"] {
        let lock = client(to_set).lock("job").wait(millis(600));
        let error = lock.acquire().await.expect_err(to_set);
        // A replica gets no vote.
        let replica = to_set.starts_with("-READONLY");
        let kind = if replica { ErrorKind::Unavailable } else { ErrorKind::Timeout };
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert!(client("+OK\r\n").lock("job").acquire().await.unwrap().is_held());
}
