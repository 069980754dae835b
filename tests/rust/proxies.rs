//! Managed servers and proxies that lack commands or close connections. Each lack is reported at connect or has a
//! substitute.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::{Gateway, Server, Verdict, client, eventually, millis};

/// A lock is acquired, waited for, kept, inspected and released over this client.
async fn works(redlock: &Redlock, about: &str) {
    let lock = redlock.lock("job").ttl(millis(600));
    let lease = lock.acquire().await.unwrap_or_else(|error| panic!("{about}: {error}"));
    let renewed = redlock.stats().renewed;
    eventually("renewals", || redlock.stats().renewed > renewed + 1).await;
    lease.extend(millis(900)).await.unwrap();
    assert!(lock.inspect().await.unwrap().held, "{about}");
    assert!(lock.try_acquire().await.unwrap().is_none(), "{about}");
    let waiting = tokio::spawn(redlock.lock("job").acquire());
    eventually("a waiter", || redlock.stats().waiting == 1).await;
    lease.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let several = redlock.lock(["one", "two"]).fencing(true).acquire().await.unwrap();
    assert!(several.fencing_token().is_ok(), "{about}");
    several.release().await.unwrap();
}

fn over(gateway: &Gateway) -> Redlock {
    Redlock::builder([gateway.url()]).build().unwrap()
}

#[tokio::test]
async fn supports_a_proxy_that_closes_at_unknown_commands() {
    let server = Server::start();
    let gateway = Gateway::twemproxy(server.port);
    let redlock = over(&gateway);
    works(&redlock, "twemproxy").await;
    assert_eq!(redlock.stats().reconnects, 0);
    // Twice `HELLO`, twice all questions, and the one that is used.
    assert_eq!(gateway.connections.load(Ordering::Relaxed), 5);
    assert_eq!(server.info("commandstats", "cmdstat_evalsha"), None);
    assert_eq!(server.ask("EXISTS lock:job"), ":0");
}

#[tokio::test]
async fn supports_a_proxy_that_closes_at_client_setname() {
    let server = Server::start();
    let gateway = Gateway::to(server.port, |words, _| match &*words[0] {
        "HELLO" => Verdict::Reply("-ERR unknown command 'HELLO'\r\n"),
        "CLIENT" => Verdict::Close,
        _ => Verdict::Pass,
    });
    works(&over(&gateway), "CLIENT").await;
}

#[tokio::test]
async fn supports_a_proxy_with_custom_error_texts() {
    let server = Server::start();
    for words in [
        "-ERR unsupported command\r\n",
        "-invalid request\r\n",
        "-Command is not available\r\n",
        "-ERR unknown command 'x', with args beginning with: \r\n",
    ] {
        let gateway = Gateway::to(server.port, move |command, _| match &*command[0] {
            "HELLO" | "CLIENT" | "SCRIPT" | "EVALSHA" | "INFO" => Verdict::Reply(words),
            _ => Verdict::Pass,
        });
        works(&over(&gateway), words).await;
    }
}

#[tokio::test]
async fn sends_auth_before_hello_if_a_proxy_requires_it() {
    let server = Server::with(&["--user", "app", "on", ">s3cret-word", "~*", "&*", "+@all"]);
    let gateway = Gateway::to(server.port, |command, logged_in| {
        if logged_in || command[0] == "AUTH" {
            Verdict::Pass
        } else {
            Verdict::Reply("-NOAUTH Authentication required.\r\n")
        }
    });
    let url = |login: &str| format!("redis://{login}{}", gateway.address());
    let redlock = Redlock::builder([url("app:s3cret-word@")]).build().unwrap();
    works(&redlock, "AUTH").await;
    // With notifications, as over a connection that has begun with HELLO.
    assert!(server.info("commandstats", "cmdstat_hello").is_some());
    let wrong = Redlock::builder([url("app:s3cret-wrong@")]).build().unwrap();
    let error = wrong.lock("job").acquire().await.unwrap_err().to_string();
    assert!(error.contains("WRONGPASS") && !error.contains("put the password"), "{error}");
    let none = Redlock::builder([url("")]).build().unwrap();
    let error = none.lock("job").acquire().await.unwrap_err().to_string();
    assert!(error.contains("NOAUTH") && error.contains("put the password"), "{error}");
}

#[tokio::test]
async fn sends_eval_without_script_load_and_evalsha() {
    let server =
        Server::with(&["--rename-command", "EVALSHA", "", "--rename-command", "SCRIPT", ""]);
    works(&client([&server]), "EVAL").await;
    let server = Server::with(&[
        "--rename-command",
        "EVALSHA",
        "",
        "--rename-command",
        "SCRIPT",
        "",
        "--rename-command",
        "EVAL",
        "",
    ]);
    let error = client([&server]).lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("does not know EVAL, which every lock needs"), "{error}");
}

#[tokio::test]
async fn names_a_missing_required_command_at_connect() {
    for hidden in ["SET", "PEXPIRE", "DEL", "PTTL", "GET"] {
        let server = Server::with(&["--rename-command", hidden, ""]);
        let redlock = client([&server]);
        let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{hidden}: {error}");
        let words = format!("does not know {hidden}, which every lock needs");
        assert!(error.to_string().contains(&words), "{hidden}: {error}");
        assert_eq!(server.ask("DBSIZE"), ":0", "{hidden}");
    }
}
