//! How long a connection attempt may take, and which calls wait for it.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use redlock::{Credentials, ErrorKind, Redlock, TlsOptions};
use socket2::{Domain, Socket, Type};

use crate::fake::command;
use crate::support::{Mode, Proxy, Server, Silent, builder, client, millis, spawn_helper};

/// Each reply arrives 400 ms late. The handshake needs at least two replies, and a command needs one.
fn slow_link() -> (Server, impl Fn(u64) -> Redlock) {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    proxy.set(Mode::LongDelay);
    let cold = move |node_timeout| {
        builder([proxy.url()]).node_timeout(millis(node_timeout)).build().unwrap()
    };
    (server, cold)
}

#[tokio::test]
async fn first_round_adds_connect_timeout_to_node_timeout() {
    let (server, cold) = slow_link();
    let lease = cold(750).lock("tried").try_acquire().await.unwrap().expect("free");
    let again = cold(750);
    let lock = again.lock("tried");
    let error = lock.wait(millis(0)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(cold(750).lock("tried").inspect().await.unwrap().held);
    let attached = cold(750);
    attached.lock("tried").attach(lease.token()).await.unwrap().into_handle().detach();
    // It sends two commands.
    assert!(cold(1200).force_release("tried").await.unwrap());
    assert_eq!(server.ask("EXISTS lock:tried"), ":0");
}

#[tokio::test]
async fn connect_timeout_limits_one_attempt() {
    let silent = Silent::listen();
    let redlock = builder([silent.url()]).connect_timeout(millis(200)).build().unwrap();
    let error = redlock.lock("job").try_acquire().await.unwrap_err();
    let words = "no connection within 0.200 s, waiting for the reply to HELLO";
    assert!(error.to_string().contains(words), "{error}");
}

#[tokio::test]
async fn error_reports_an_unfinished_connect() {
    let silent = Silent::listen();
    let redlock = builder([silent.url()]).connect_timeout(millis(9000)).build().unwrap();
    let error = redlock.lock("job").wait(millis(150)).acquire().await.unwrap_err();
    let text = error.to_string();
    let words = "still connecting (connect_timeout is 9 s), waiting for the reply to HELLO";
    assert!(text.contains(words), "{text}");
    // A server that is connected but does not reply produces no such message.
    let server = Server::start();
    let redlock = client([&server]);
    redlock.lock("job").inspect().await.unwrap();
    server.signal(libc::SIGSTOP);
    let error = redlock.lock("job").wait(millis(150)).acquire().await.unwrap_err();
    assert!(!error.to_string().contains("connecting"), "{error}");
}

/// A server that replies like this to the first commands of each connection, and to no other.
fn replies_only(replies: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn_helper(move || {
        for stream in listener.incoming().flatten() {
            spawn_helper(move || {
                let mut asked = BufReader::new(stream.try_clone().unwrap());
                let mut replies = replies.iter();
                while command(&mut asked).is_some() {
                    let Some(reply) = replies.next() else { continue };
                    let _ = (&stream).write_all(reply.as_bytes());
                }
            });
        }
    });
    port
}

/// A listener whose queue is full, so that the system drops packets of further connections.
fn full() -> (Socket, Vec<TcpStream>, u16) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    (listener, vec![TcpStream::connect(address).unwrap()], address.port())
}

#[tokio::test]
async fn time_out_of_an_attempt_names_its_step() {
    const UNKNOWN: &str = "-ERR unknown command 'HELLO'\r\n";
    const HELLO: &str = "%1\r\n$5\r\nproto\r\n:3\r\n";
    let (silent, (_full, _queue, full)) = (Silent::listen(), full());
    let local = |port: u16| format!("redis://127.0.0.1:{port}");
    let of = |url: String| Redlock::builder([url]);
    let step = |step: &str| format!("no connection within 0.300 s, waiting for {step}");
    let hanging = async || {
        std::future::pending::<()>().await;
        Ok::<_, ()>(Credentials::new("s3cret"))
    };
    let secured = of(format!("rediss://127.0.0.1:{}", silent.port()));
    let sentinel = of(format!("redis+sentinel://127.0.0.1:{}/service", silent.port()));
    for (builder, words) in [
        (of(local(full)), step(&format!("the TCP connection to 127.0.0.1:{full}"))),
        (
            secured.tls(TlsOptions::new().verify(false)),
            step(&format!("the TLS handshake with 127.0.0.1:{}", silent.port())),
        ),
        (of(silent.url()), step("the reply to HELLO")),
        (of(local(replies_only(&[UNKNOWN]))), step("the reply to PING")),
        (
            of(local(replies_only(&[UNKNOWN])).replace("//", "//:s3cret@")),
            step("the reply to AUTH"),
        ),
        (of(local(replies_only(&[HELLO]))), step("the reply to CLIENT SETNAME")),
        (of(local(replies_only(&[HELLO, "+OK\r\n"]))), step("the reply to CLIENT SETINFO")),
        (of(silent.url()).credentials(hanging), step("the credentials")),
        (sentinel, "no connection within 0.150 s, waiting for the reply to HELLO".to_owned()),
    ] {
        let redlock = builder.connect_timeout(millis(300)).build().unwrap();
        let error = redlock.lock("job").try_acquire().await.unwrap_err().to_string();
        assert!(error.contains(&words) && !error.contains("s3cret"), "{words}: {error}");
        // The round ends before the attempt does.
        let early = "still connecting (connect_timeout is 0.3 s), waiting for ";
        let lock = redlock.lock("job").wait(millis(40));
        let error = lock.acquire().await.unwrap_err().to_string();
        assert!(error.contains(early) || error.contains(&words), "{words}: {error}");
    }
}
