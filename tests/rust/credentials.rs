//! Changing credentials: requested at each connect and before they expire, on a separate thread, and never shown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock::{Builder, Credentials, ErrorKind, Redlock};

use crate::support::{Proxy, Sentinels, Server, builder, eventually, millis};

/// A server that accepts this password. The tests themselves connect as `default`.
fn guarded(password: &str) -> Server {
    Server::with(&["--user", "app", "on", &format!(">{password}"), "~*", "+@all"])
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

#[tokio::test]
async fn every_connection_requests_credentials() {
    let server = guarded("first");
    let proxy = Proxy::to(server.port);
    let secret = Arc::new(Mutex::new("first".to_owned()));
    let (asked, known) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&secret));
    let count = Arc::clone(&asked);
    let redlock = Redlock::builder([proxy.url()])
        .credentials(move || {
            count.fetch_add(1, Ordering::SeqCst);
            // Not on the connection thread, which must never block.
            assert_eq!(std::thread::current().name(), Some("redlock-credentials"));
            let password = known.lock().unwrap().clone();
            async move { Ok::<_, std::io::Error>(Credentials::new(password).user("app")) }
        })
        .build()
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing connects before the first use");
    let lease = redlock.lock("job").acquire().await.unwrap();
    let connections = || -> Vec<String> {
        let list = server.text("CLIENT LIST");
        let ours = list.lines().filter(|line| line.contains(" user=app "));
        ours.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let before = connections();
    assert!(!before.is_empty());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // The old password is invalid now, and the connection breaks.
    server.ask("ACL SETUSER app resetpass >second");
    *secret.lock().unwrap() = "second".into();
    proxy.reset();
    eventually("it was not asked again", || asked.load(Ordering::SeqCst) > 1).await;
    // The server may list the broken connection for some time.
    let back = || connections().iter().any(|id| !before.contains(id));
    eventually("it did not come back", back).await;
    lease.extend(millis(10_000)).await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn logs_in_again_before_credentials_expire() {
    let server = guarded("token-1");
    server.ask("ACL SETUSER app >token-2 >token-3 >token-4 >token-5 >token-6");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let redlock = Redlock::builder([url(&server)])
        .credentials(move || {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            let token = Credentials::new(format!("token-{}", number.min(6)));
            async move { Ok::<_, ()>(token.user("app").lifetime(Duration::from_secs(1))) }
        })
        .build()
        .unwrap();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let id = || {
        let list = server.text("CLIENT LIST");
        let line = list.lines().find(|line| line.contains(" name=redlock "));
        line.and_then(|line| line.split(' ').next()).unwrap().to_owned()
    };
    let (before, auths) = (id(), || server.info("commandstats", "cmdstat_auth"));
    assert_eq!(auths(), None, "the greeting logs in by HELLO");
    eventually("it did not log in again", || {
        let again = |auth: &str| ["calls=1,", "calls=2,"].iter().all(|few| !auth.contains(few));
        // Twice over each of two connections.
        asked.load(Ordering::SeqCst) >= 3 && auths().as_deref().is_some_and(again)
    })
    .await;
    assert_eq!(id(), before, "the same connection");
    // Tracking is on as before. A push reports the loss long before the renewal.
    assert!(lease.is_held());
    server.ask("DEL lock:job");
    let lost = tokio::time::timeout(Duration::from_secs(3), lease.lost()).await;
    assert_eq!(lost.expect("it is notified").reason(), Some("missing"));
}

#[tokio::test]
async fn failing_callback_is_an_error_in_time_without_secrets() {
    let server = guarded("s3cret");
    let unavailable = async |redlock: Redlock| {
        let lock = redlock.lock("job").node_timeout(millis(3000)).wait(Duration::ZERO);
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        error.to_string()
    };
    let fails = async |builder: &dyn Fn() -> Builder, words: &str| {
        // A busy machine may run a callback or a connection too late, which is another error.
        for _ in 0..10 {
            if unavailable(builder().build().unwrap()).await.contains(words) {
                return;
            }
        }
        panic!("{words}: {}", unavailable(builder().build().unwrap()).await);
    };
    let builder = || Redlock::builder([url(&server)]);
    let failing = || builder().credentials(async || Err(std::io::Error::other("s3cret")));
    fails(&failing, "credentials failed with std::io::error::Error").await;
    let panicking = || {
        builder().credentials(|| {
            assert!(std::thread::current().name().is_none(), "deliberate");
            async { Ok::<_, ()>(Credentials::new("s3cret")) }
        })
    };
    fails(&panicking, "credentials panicked").await;
    let hanging = || {
        builder().credentials(async || {
            std::future::pending::<()>().await;
            Ok::<_, ()>(Credentials::new("s3cret"))
        })
    };
    fails(&hanging, "credentials did not return within 1.500 s").await;
    let blocking = || {
        builder().credentials(async || {
            std::thread::sleep(Duration::from_secs(5));
            Ok::<_, ()>(Credentials::new("s3cret"))
        })
    };
    fails(&blocking, "credentials did not return within 1.500 s").await;
    let credentials = |credentials: Credentials| {
        let asked = move || std::future::ready(Ok::<_, ()>(credentials.clone()));
        builder().credentials(asked)
    };
    let empty = || credentials(Credentials::new(""));
    fails(&empty, "credentials returned an empty password").await;
    let short = || credentials(Credentials::new("s3cret").lifetime(millis(10)));
    fails(&short, "a lifetime of less than a second").await;
    let wrong = || credentials(Credentials::new("wrong-s3cret").user("app"));
    fails(&wrong, "WRONGPASS").await;
}

#[tokio::test]
async fn late_credentials_serve_the_next_attempt() {
    let server = guarded("s3cret");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let redlock = Redlock::builder([url(&server)])
        .credentials(move || {
            count.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::time::sleep(millis(2500)).await;
                Ok::<_, ()>(Credentials::new("s3cret").user("app"))
            }
        })
        .build()
        .unwrap();
    let lock = redlock.lock("job").wait(Duration::from_secs(20));
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(asked.load(Ordering::SeqCst) <= 2, "each attempt requested credentials again");
}

#[tokio::test]
async fn refuses_callback_together_with_a_url_password() {
    for node in ["redis://:s3cret@127.0.0.1:1", "redis://127.0.0.1:1?password=s3cret"] {
        let made =
            Redlock::builder([node]).credentials(async || Ok::<_, ()>(Credentials::new("x")));
        let error = made.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains("credentials is set, but node redis://127.0.0.1:1 has"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

/// The client logs in to a service's servers as the program specifies, including the new primary after a failover.
#[tokio::test]
async fn logs_in_to_each_primary_that_sentinel_reports() {
    let mut sentinels = Sentinels::start(1, 2);
    for server in &sentinels.services[0].servers {
        assert_eq!(server.ask("ACL SETUSER app on >first ~* &* +@all"), "+OK");
    }
    let old = sentinels.services[0].servers[0].port;
    let password = Arc::new(Mutex::new("first"));
    let now = Arc::clone(&password);
    let redlock = builder([sentinels.url(0)])
        .credentials(move || {
            let password = *now.lock().unwrap();
            async move { Ok::<_, std::io::Error>(Credentials::new(password).user("app")) }
        })
        .build()
        .unwrap();
    let lease = redlock.lock("job").ttl(millis(60_000)).acquire().await.unwrap();
    assert!(sentinels.server(old).text("CLIENT LIST").contains(" user=app "));
    // The next connection uses another password.
    for server in &sentinels.services[0].servers {
        assert_eq!(server.ask("ACL SETUSER app resetpass >second"), "+OK");
    }
    *password.lock().unwrap() = "second";
    sentinels.fail_over(0);
    let new = sentinels.wait_switched(0, old);
    eventually("logged in at the new primary", || {
        sentinels.server(new).text("CLIENT LIST").contains(" user=app ")
    })
    .await;
    lease.extend(millis(90_000)).await.unwrap();
    lease.release().await.unwrap();
}
