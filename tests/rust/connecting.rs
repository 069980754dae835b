//! How long a connection attempt may take, and which calls wait for it.

use redlock::{ErrorKind, Redlock};

use crate::support::{Mode, Proxy, Server, Silent, builder, client, millis};

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
    assert!(error.to_string().contains("no connection within 0.200 s"), "{error}");
}

#[tokio::test]
async fn error_reports_an_unfinished_connect() {
    let silent = Silent::listen();
    let redlock = builder([silent.url()]).connect_timeout(millis(9000)).build().unwrap();
    let error = redlock.lock("job").wait(millis(150)).acquire().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("still connecting (connect_timeout is 9 s)"), "{text}");
    // A server that is connected but does not reply produces no such message.
    let server = Server::start();
    let redlock = client([&server]);
    redlock.lock("job").inspect().await.unwrap();
    server.signal(libc::SIGSTOP);
    let error = redlock.lock("job").wait(millis(150)).acquire().await.unwrap_err();
    assert!(!error.to_string().contains("connecting"), "{error}");
}
