//! Managed servers and proxies that lack commands or close connections. Each lack is reported at connect or has a
//! substitute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::replicas::calls;
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
    assert!(!redlock.force_release("job").await.unwrap(), "{about}");
    let forced = lock.acquire().await.unwrap();
    assert!(redlock.force_release("job").await.unwrap(), "{about}");
    assert!(!lock.inspect().await.unwrap().held, "{about}");
    drop(forced);
    let several = redlock.lock(["one", "two"]).fencing(true).acquire().await.unwrap();
    assert!(several.fencing_token().is_ok(), "{about}");
    several.release().await.unwrap();
}

async fn pair(redlock: &Redlock) {
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
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
    // Twice `HELLO`, twice all questions, and the one that is used. Later connections only check for more features.
    assert!(gateway.connections.load(Ordering::Relaxed) >= 5);
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
            "HELLO" | "CLIENT" | "SCRIPT" | "EVALSHA" | "INFO" | "TIME" => Verdict::Reply(words),
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
    assert!(error.contains("WRONGPASS") && !error.contains("add the password"), "{error}");
    let none = Redlock::builder([url("")]).build().unwrap();
    let error = none.lock("job").acquire().await.unwrap_err().to_string();
    assert!(error.contains("NOAUTH") && error.contains("add the password"), "{error}");
}

#[tokio::test]
async fn sends_eval_without_script_load_and_evalsha() {
    let server =
        Server::with(&["--rename-command", "EVALSHA", "", "--rename-command", "SCRIPT", ""]);
    works(&client([&server]), "EVAL").await;
}

#[tokio::test]
async fn refused_scripts_are_unsupported_at_once() {
    const HIDDEN: [&str; 3] = ["EVAL", "EVALSHA", "SCRIPT"];
    let options: Vec<_> =
        HIDDEN.into_iter().flat_map(|name| ["--rename-command", name, ""]).collect();
    let server = Server::with(&options);
    let plain = Gateway::to(server.port, |_, _| Verdict::Pass);
    let proxied = Server::start();
    let refusing = Gateway::to(proxied.port, |words, _| {
        let hidden = HIDDEN.contains(&&*words[0]);
        if hidden { Verdict::Reply("-ERR scripts are off here\r\n") } else { Verdict::Pass }
    });
    for (gateway, words) in [(plain, "unknown command"), (refusing, "scripts are off here")] {
        // Without `wait`, so that it would be repeated for 10 s if another attempt could help.
        let error = over(&gateway).lock("job").acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        assert!(text.contains("does not support EVAL, which every lock needs"), "{text}");
        assert!(text.contains(words), "{text}");
    }
    assert!(server.ask("DBSIZE") == ":0" && proxied.ask("DBSIZE") == ":0");
}

#[tokio::test]
async fn names_a_missing_required_command_at_connect() {
    for hidden in ["SET", "PEXPIRE", "DEL", "PTTL", "GET"] {
        let server = Server::with(&["--rename-command", hidden, ""]);
        let redlock = client([&server]);
        let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{hidden}: {error}");
        let words = format!("does not support {hidden}, which every lock needs");
        assert!(error.to_string().contains(&words), "{hidden}: {error}");
        assert_eq!(server.ask("DBSIZE"), ":0", "{hidden}");
    }
}

#[tokio::test]
async fn several_keys_need_no_command_for_several_keys() {
    for hidden in ["MGET", "EXISTS", "GETRANGE", "PING"] {
        let server = Server::with(&["--rename-command", hidden, ""]);
        let redlock = client([&server]);
        let lock = redlock.lock(["a", "b"]).wait(Duration::ZERO);
        let lease = lock.acquire().await.unwrap_or_else(|error| panic!("{hidden}: {error}"));
        lease.extend(millis(20_000)).await.unwrap();
        assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Timeout, "{hidden}");
        lease.release().await.unwrap();
        assert_eq!(server.ask("DBSIZE"), ":0", "{hidden}");
    }
}

/// Whether this is one of the first calls.
fn is_early(left: &AtomicU32) -> bool {
    let one_less = |left: u32| left.checked_sub(1);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
}

/// A proxy that gives this verdict on the first two commands with this name, and then passes everything on.
fn twice(server: &Server, name: &'static str, verdict: Verdict) -> Gateway {
    let left = AtomicU32::new(2);
    Gateway::to(server.port, move |words, _| {
        if words[0] == name && is_early(&left) { verdict } else { Verdict::Pass }
    })
}

#[tokio::test]
async fn node_votes_after_two_cut_handshakes() {
    let server = Server::start();
    let gateway = twice(&server, "INFO", Verdict::Close);
    let redlock = Redlock::builder([gateway.url()]).restart_guard(millis(2000)).build().unwrap();
    let lock = redlock.lock("job").ttl(millis(2000));
    let error = lock.clone().wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(error.to_string().contains("its uptime cannot be read"), "{error}");
    lock.wait(millis(60_000)).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(redlock.stats().reconnects, 1);
}

#[tokio::test]
async fn node_sends_pushes_after_two_cut_logins() {
    let server = Server::start();
    let gateway = twice(&server, "HELLO", Verdict::Close);
    let redlock = over(&gateway);
    let lease = redlock.lock("job").acquire().await.unwrap();
    eventually("a connection with notifications", || redlock.stats().reconnects == 1).await;
    // The connection was replaced between two commands.
    lease.release().await.unwrap();
    works(&redlock, "after that").await;
    assert_eq!(redlock.stats().reconnects, 1);
}

#[tokio::test]
async fn full_server_does_not_count_as_without_hello() {
    const FULL: Verdict = Verdict::Dismiss("-ERR max number of clients reached\r\n");
    let server = Server::start();
    let at_hello = twice(&server, "HELLO", FULL);
    // One attempt is cut twice at `HELLO`, and has no room for the third connection. The next one has one connection.
    let (hello, ping) = (AtomicU32::new(3), AtomicU32::new(1));
    let at_ping = Gateway::to(server.port, move |words, _| match &*words[0] {
        "HELLO" if is_early(&hello) => Verdict::Close,
        "PING" if is_early(&ping) => FULL,
        _ => Verdict::Pass,
    });
    let clients = [at_hello, at_ping].map(|gateway| (over(&gateway), gateway));
    for (redlock, _gateway) in &clients {
        let lock = redlock.lock("job").wait(millis(60_000));
        lock.acquire().await.unwrap().release().await.unwrap();
        // It has worked with RESP3 from the beginning.
        assert_eq!(redlock.stats().reconnects, 0);
    }
    // Two connections each. A dropped client would not open its second one.
    eventually("notifications", || calls(&server, "hello") == 4).await;
}

/// Errors that no list of known texts contains.
const OTHER_WORDS: [&str; 4] = [
    "-ERR this is off here\r\n",
    "-DISABLED by the operator\r\n",
    "-forbidden\r\n",
    "-ERR handle request failed, see the manual\r\n",
];

#[tokio::test]
async fn missing_command_is_detected_by_any_error_of_its_probe() {
    let server = Server::start();
    for (name, words) in ["SET", "PEXPIRE", "GET"].into_iter().zip(OTHER_WORDS) {
        let gateway = Gateway::to(server.port, move |command, _| match &*command[0] {
            given if given == name => Verdict::Reply(words),
            _ => Verdict::Pass,
        });
        let error = over(&gateway).lock("job").acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{words}: {error}");
        let (text, quote) = (error.to_string(), words.trim_start_matches('-').trim_end());
        assert!(text.contains(&format!("does not support {name}")), "{text}");
        assert!(text.contains(quote), "{text}");
    }
    for words in OTHER_WORDS {
        let gateway = Gateway::to(server.port, move |command, _| match &*command[0] {
            "EVAL" | "EVALSHA" => Verdict::Reply(words),
            _ => Verdict::Pass,
        });
        let error = over(&gateway).lock("job").acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{words}: {error}");
        let text = error.to_string();
        assert!(text.contains("EVAL") && text.contains(words[1..].trim_end()), "{text}");
        // A command that only saves work.
        let gateway = Gateway::to(server.port, move |command, _| match &*command[0] {
            "GETRANGE" | "EXISTS" | "MGET" => Verdict::Reply(words),
            _ => Verdict::Pass,
        });
        pair(&over(&gateway)).await;
    }
}

#[tokio::test]
async fn missing_wait_is_recognized_by_any_error_of_its_trial() {
    let server = Server::start();
    for words in OTHER_WORDS {
        let gateway = Gateway::to(server.port, move |command, _| match &*command[0] {
            "WAIT" | "WAITAOF" => Verdict::Reply(words),
            _ => Verdict::Pass,
        });
        for (client, name) in [
            (Redlock::builder([gateway.url()]).min_replicas(1), "WAIT"),
            (Redlock::builder([gateway.url()]).fsync(true), "WAITAOF"),
        ] {
            let redlock = client.build().unwrap();
            let error = redlock.lock("job").acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{words}: {error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(words[1..].trim_end()), "{text}");
        }
    }
}

#[tokio::test]
async fn proxy_whose_server_is_down_is_tried_again() {
    let server = Server::start();
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let gateway = Gateway::to(server.port, move |command, _| match &*command[0] {
        "HELLO" | "CLIENT" | "INFO" | "PING" => Verdict::Pass,
        _ if up.load(Ordering::SeqCst) => Verdict::Pass,
        _ => Verdict::Reply("-ERR upstream failure\r\n"),
    });
    let redlock = over(&gateway);
    let lock = redlock.lock("job");
    let acquire = tokio::spawn(async move { lock.wait(Duration::from_secs(20)).acquire().await });
    eventually("it connects", || gateway.connections.load(Ordering::SeqCst) > 1).await;
    is_up.store(true, Ordering::SeqCst);
    acquire.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn server_before_redis_6_2_is_named_at_the_first_fencing_or_min_hold() {
    const SYNTAX: &str =
        "-ERR Error running script (call to f_1) @user_script:58: ERR syntax error\r\n";
    let server = Server::start();
    let gateway = Gateway::to(server.port, |words, _| {
        // The acquire with a fence key, and the release with a time to stay.
        let newer = words[0] == "EVALSHA" && (words[2] == "2" || words.len() == 6);
        if newer { Verdict::Reply(SYNTAX) } else { Verdict::Pass }
    });
    pair(&over(&gateway)).await;
    let lock = over(&gateway).lock("job");
    let fenced = lock.clone().fencing(true).acquire().await.unwrap_err();
    let lease = lock.min_hold(Duration::from_secs(1)).acquire().await.unwrap();
    let released = lease.release().await.unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Unsupported, "{fenced}");
    for error in [fenced, released] {
        assert!(error.to_string().contains("need Redis 6.2 or newer"), "{error}");
    }
}
