//! `scripts(false)`: locks of users without the right to run scripts, based on the server's compare-and-delete command.

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::scriptless::{Dialect, ScriptlessServer};
use crate::support::{Server, Silent, eventually, millis};

fn scriptless_client(url: String) -> Redlock {
    Redlock::builder([url]).scripts(false).build().unwrap()
}

/// Whether the test server supports a conditional delete: Valkey 9 and Redis 8.4.
fn has_conditional_delete(server: &Server) -> bool {
    ["DELIFEQ none x", "DELEX none IFEQ x"].iter().any(|ask| server.ask(ask) == ":0")
}

/// Tests either dialect, selected by name.
async fn check_all_commands(dialect: Dialect, name: &str) {
    let scriptless = ScriptlessServer::start(dialect);
    let (one, two) = (scriptless_client(scriptless.url()), scriptless_client(scriptless.url()));
    let lock = one.lock("job").ttl(millis(600));
    let lease = lock.acquire().await.unwrap();
    assert!(two.lock("job").try_acquire().await.unwrap().is_none());
    let error = two.lock("job").wait(millis(100)).acquire().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Timeout && error.remaining() <= Some(millis(600)),
        "{error}"
    );
    eventually("renewals", || one.stats().renewed >= 4).await;
    lease.ensure_held().unwrap();
    let seen = two.lock("job").inspect().await.unwrap();
    assert!(seen.held && seen.nodes[0].token.as_deref() == Some(&lease.token()[..8]));
    let attached = two.lock("job").attach(lease.token()).await.unwrap();
    assert!(attached.detach());
    lease.release().await.unwrap();
    // A second delete cancels a vote that a busy machine answered late.
    assert!(scriptless.get("lock:job").is_none() && scriptless.count(name) > 0);
    assert!(!two.lock("job").inspect().await.unwrap().held);
    let lease = one.lock("job").acquire().await.unwrap();
    assert!(two.force_release("job").await.unwrap() && !two.force_release("job").await.unwrap());
    assert_eq!(scriptless.get("lock:job"), None);
    drop(lease);
    for script in ["EVALSHA", "SCRIPT", "EVAL"] {
        assert_eq!(scriptless.count(script), 0, "{script}");
    }
}

#[tokio::test]
async fn all_commands_work_with_delifeq() {
    check_all_commands(Dialect::DelIfEq, "DELIFEQ").await;
}

#[tokio::test]
async fn all_commands_work_with_delex() {
    check_all_commands(Dialect::DelEx, "DELEX").await;
}

#[tokio::test]
async fn reports_missing_conditional_delete_at_connect() {
    let scriptless = ScriptlessServer::start(Dialect::Nothing);
    let redlock = scriptless_client(scriptless.url());
    let error = redlock.lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error.to_string().contains("scripts is off, but the server has neither DELIFEQ"),
        "{error}"
    );
    assert_eq!(scriptless.count("SET"), 0, "a vote was sent");
    // A server that is still loading may support them.
    let lock = scriptless_client(ScriptlessServer::start(Dialect::Loading).url())
        .lock("job")
        .wait(Duration::ZERO);
    let error = lock.acquire().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("LOADING"),
        "{error}"
    );
    let real = Server::start();
    let acquired = scriptless_client(real.url()).lock("job").acquire().await;
    match acquired {
        Ok(lease) => assert!(has_conditional_delete(&real) && lease.is_held()),
        Err(error) => assert!(
            !has_conditional_delete(&real) && error.kind() == ErrorKind::Unsupported,
            "{error}"
        ),
    }
}

/// A user without the right to run scripts, and a client without the option.
#[tokio::test]
async fn user_without_script_permission_needs_the_option() {
    let scriptless = ScriptlessServer::start(Dialect::DelIfEq);
    let redlock = Redlock::builder([scriptless.url()]).build().unwrap();
    let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    let cause = error.nodes()[0].error.clone().unwrap();
    assert!(error.kind() == ErrorKind::Unavailable && cause.contains("NOPERM"), "{cause}");
    assert!(cause.contains("scripts"), "{cause}");
}

#[tokio::test]
async fn refuses_script_features_before_sending() {
    let silent = Silent::listen();
    let redlock = scriptless_client(silent.url());
    let fenced = redlock.lock("job").fencing(true).acquire().await.unwrap_err();
    let several = redlock.lock(["a", "b"]);
    let errors = [
        (fenced, "fencing"),
        (several.acquire().await.unwrap_err(), "several names"),
        (several.inspect().await.unwrap_err(), "several names"),
        (several.attach("token").await.unwrap_err(), "several names"),
        (redlock.force_release(["a", "b"]).await.unwrap_err(), "several names"),
    ];
    for (error, word) in errors {
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        assert!(text.contains("scripts is off") && text.contains(word), "{text}");
    }
    assert!(!silent.called());
}

/// The server loses one reply, so that all later ones are shifted. No caller gets the reply of another.
#[tokio::test]
async fn rejects_a_shifted_reply() {
    for lost in ["DELIFEQ", "PING", "GETRANGE", "EXEC", "MULTI"] {
        let scriptless = ScriptlessServer::start(Dialect::DelIfEq);
        let redlock = scriptless_client(scriptless.url());
        let lock = |name: &str| redlock.lock(name).ttl(millis(2000)).renew(false);
        let (one, two) =
            (lock("one").acquire().await.unwrap(), lock("two").acquire().await.unwrap());
        // The server has lost the key of "two". The reply for "one" must not be taken for the reply for "two".
        scriptless.set("lock:two", "other", millis(10_000));
        scriptless.lose(&[lost]);
        let (first, second) = if matches!(lost, "DELIFEQ" | "PING") {
            tokio::join!(one.release(), two.release())
        } else {
            let (ttl, other) = (millis(3000), millis(3001));
            tokio::join!(one.extend(ttl), two.extend(other))
        };
        assert!(second.is_err(), "{lost}: {second:?}");
        if let Err(error) = first {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{lost}: {error}");
        }
    }
}

/// A whole reply is lost. The next one has the same shape and belongs to another lease.
#[tokio::test]
async fn rejects_the_reply_of_the_next_release() {
    let scriptless = ScriptlessServer::start(Dialect::DelIfEq);
    let redlock = scriptless_client(scriptless.url());
    let lock = |name: &str| redlock.lock(name).ttl(millis(2000)).renew(false).acquire();
    let (taken, ours) = (lock("taken").await.unwrap(), lock("ours").await.unwrap());
    scriptless.set("lock:taken", "other", millis(10_000));
    scriptless.lose(&["DELIFEQ", "PING"]);
    let (first, _) = tokio::join!(taken.release(), ours.release());
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn extend_never_shortens_without_scripts() {
    let scriptless = ScriptlessServer::start(Dialect::DelIfEq);
    let (one, two) = (scriptless_client(scriptless.url()), scriptless_client(scriptless.url()));
    let lease = one.lock("job").ttl(millis(1000)).renew(false).acquire().await.unwrap();
    let attached = two.lock("job").ttl(millis(30_000)).renew(false);
    let attached = attached.attach(lease.token()).await.unwrap();
    lease.extend(millis(1000)).await.unwrap();
    assert!(
        scriptless.get("lock:job").unwrap().1 > millis(20_000),
        "{:?}",
        scriptless.get("lock:job")
    );
    attached.detach();
}

/// If the lease was taken over, a renewal must not extend the key of the other client.
#[tokio::test]
async fn extend_does_not_touch_the_next_holders_key() {
    let scriptless = ScriptlessServer::start(Dialect::DelIfEq);
    let redlock = scriptless_client(scriptless.url());
    let lease = redlock.lock("job").ttl(millis(10_000)).renew(false).acquire().await.unwrap();
    scriptless.set("lock:job", "other", millis(900));
    let error = lease.extend(millis(10_000)).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Lost, Some("taken")), "{error}");
    assert_eq!(scriptless.count("PEXPIRE"), 0);
    assert!(scriptless.get("lock:job").unwrap().1 < millis(900));
}

/// Deletes the value that was seen, not the value that exists when the delete arrives.
#[tokio::test]
async fn force_release_deletes_only_the_value_it_saw() {
    let scriptless = ScriptlessServer::start(Dialect::DelIfEq);
    let redlock = scriptless_client(scriptless.url());
    scriptless.set("lock:job", "first", millis(10_000));
    // The client connected before. The reply that names the holder is lost, so the repeated request is a different
    // question.
    assert!(redlock.lock("job").inspect().await.unwrap().held);
    scriptless.set("lock:long", &"x".repeat(2000), millis(10_000));
    let error = redlock.force_release("long").await.unwrap_err();
    assert!(error.to_string().contains("not a token"), "{error}");
    assert!(scriptless.get("lock:long").is_some());
    assert!(redlock.force_release("job").await.unwrap());
    assert_eq!((scriptless.get("lock:job"), scriptless.count("DEL")), (None, 0));
}

/// The delete of a broken connection stays pending, and is sent in the dialect of the server that is then connected.
#[tokio::test]
async fn lost_delete_is_sent_again() {
    for dialect in [Dialect::DelIfEq, Dialect::DelEx] {
        let scriptless = ScriptlessServer::start(dialect);
        let redlock = scriptless_client(scriptless.url());
        let lease = redlock.lock("job").ttl(millis(8000)).acquire().await.unwrap();
        // The connection breaks at the shifted reply. The delete was run, and is sent again.
        scriptless.lose(&["PING"]);
        let _ = lease.release().await;
        let name = if dialect == Dialect::DelIfEq { "DELIFEQ" } else { "DELEX" };
        eventually("a second delete", || scriptless.count(name) >= 2).await;
        assert_eq!(scriptless.get("lock:job"), None);
    }
}

/// The minimum rights of a user on Valkey 9: `docs/operate/security.md`.
#[cfg(feature = "delifeq")]
const MINIMUM_PERMISSIONS: &str =
    include_str!("../vectors/rights_without_scripts.txt").trim_ascii_end();

/// A user without the right to run scripts on Valkey 9.
#[cfg(feature = "delifeq")]
fn as_user(server: &Server, rights: &str) -> Redlock {
    assert_eq!(server.ask(&format!("ACL SETUSER app reset on >s3cret-word {rights}")), "+OK");
    let url = format!("redis://app:s3cret-word@127.0.0.1:{}", server.port);
    scriptless_client(url)
}

#[cfg(feature = "delifeq")]
#[tokio::test]
async fn minimum_permissions_suffice_without_scripts() {
    let server = Server::start();
    let redlock = as_user(&server, MINIMUM_PERMISSIONS);
    let lock = redlock.lock("job").ttl(millis(600));
    let lease = lock.acquire().await.unwrap();
    eventually("renewals", || redlock.stats().renewed >= 4).await;
    lease.extend(millis(700)).await.unwrap();
    assert!(lock.inspect().await.unwrap().held && lease.is_held());
    let waiting = tokio::spawn(redlock.lock("job").acquire());
    eventually("a waiter", || redlock.stats().waiting == 1).await;
    lease.release().await.unwrap();
    // By push, not by polling.
    let next = tokio::time::timeout(millis(5000), waiting).await.unwrap().unwrap().unwrap();
    assert!(redlock.force_release("job").await.unwrap());
    tokio::time::timeout(millis(5000), next.lost()).await.expect("notified by push");
    let plain = redlock.lock("plain").acquire().await.unwrap();
    redlock.lock("plain").attach(plain.token()).await.unwrap().detach();
    plain.release().await.unwrap();
    assert_eq!(server.ask("DBSIZE"), ":0");
    assert_eq!(server.info("commandstats", "cmdstat_evalsha"), None);
    assert_eq!(server.info("commandstats", "cmdstat_script|load"), None);
}

#[cfg(feature = "delifeq")]
#[tokio::test]
async fn names_a_missing_permission_without_scripts() {
    let server = Server::start();
    for right in ["set", "getrange", "pttl", "pexpire", "multi", "exec", "ping", "delifeq"] {
        let redlock = as_user(&server, &format!("{MINIMUM_PERMISSIONS} -{right}"));
        let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{right}: {error}");
        let cause = error.nodes()[0].error.clone().unwrap();
        assert!(
            cause.contains(&format!("may not run {}", right.to_uppercase())),
            "{right}: {cause}"
        );
        assert_eq!(server.ask("DBSIZE"), ":0", "{right}");
    }
}

/// Releases use the script by default also where the server has `DELIFEQ`, because only scripts of several callers are
/// combined.
#[cfg(feature = "delifeq")]
#[tokio::test]
async fn releases_by_script_by_default() {
    let server = Server::start();
    let redlock = Redlock::builder([server.url()]).build().unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(server.info("commandstats", "cmdstat_delifeq"), None);
    assert!(server.info("commandstats", "cmdstat_evalsha").is_some());
}
