//! Connections that take seconds to open.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlock::{Credentials, Redlock};
use tokio::sync::Notify;

use crate::support::{Server, millis, spawn_helper};

/// Accepts connections, and passes on nothing for this long after each one.
fn delayed_proxy(server: &Server, delay: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let port = server.port;
    spawn_helper(move || {
        for client in listener.incoming().flatten() {
            spawn_helper(move || {
                std::thread::sleep(delay);
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let copies = (client.try_clone().unwrap(), server.try_clone().unwrap());
                spawn_helper(move || drop(std::io::copy(&mut &client, &mut &server)));
                drop(std::io::copy(&mut &copies.1, &mut &copies.0));
            });
        }
    });
    url
}

// Slow: the connection takes longer than any test of the first tier may wait.
#[tokio::test]
async fn connects_over_a_link_with_three_seconds_delay() {
    let server = Server::start();
    let url = delayed_proxy(&server, millis(3000));
    let cold = |url: &str| Redlock::builder([url]).build().unwrap();
    let lock = cold(&url).lock("waits").wait(millis(20_000));
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(cold(&url).lock("once").try_acquire().await.unwrap().is_some());
    // Longer than the default.
    let url = delayed_proxy(&server, millis(6000));
    assert!(cold(&url).lock("late").try_acquire().await.is_err());
    for redlock in [
        Redlock::builder([&url]).connect_timeout(millis(9000)).build().unwrap(),
        cold(&format!("{url}?socket_connect_timeout=9")),
    ] {
        assert!(redlock.lock("later").try_acquire().await.unwrap().is_some());
    }
}

// Slow: the callback hangs for longer than an attempt waits for it.
#[tokio::test]
async fn hanging_credentials_are_requested_once() {
    let server = Server::with(&["--user", "app", "on", ">s3cret", "~*", "+@all"]);
    let (calls, returns) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, wait) = (Arc::clone(&calls), Arc::clone(&returns));
    let redlock = Redlock::builder([format!("redis://127.0.0.1:{}", server.port)])
        .credentials(move || {
            count.fetch_add(1, Ordering::SeqCst);
            let wait = Arc::clone(&wait);
            async move {
                wait.notified().await;
                Ok::<_, ()>(Credentials::new("s3cret").user("app"))
            }
        })
        .build()
        .unwrap();
    let error = redlock.lock("job").wait(millis(33_000)).acquire().await.map(drop).unwrap_err();
    assert!(error.to_string().contains("did not return"), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    returns.notify_one();
    let lease = redlock.lock("job").wait(millis(10_000)).acquire().await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1, "its late result was not used");
}
