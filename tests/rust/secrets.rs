//! Passwords, keys and foreign texts (`vectors/secrets.toml`): what is never shown, and what is shown only escaped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use redlock::{Error, Redlock, TlsOptions};
use serde::Deserialize;

use crate::fake::{Fake, Row};
use crate::support::{Server, client, millis};
use crate::vectors::read;

/// The tables of the file. The secret in each row contains `s3cret`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Secrets {
    /// Node URLs that the client refuses.
    refused: Vec<Clients>,
    /// TLS options that are not paths of readable files.
    tls: Vec<Tls>,
    /// Node URLs with a password, at which no server listens.
    accepted: Vec<Clients>,
    /// Replies of a fake server that contain the password or control characters.
    said: Vec<Row>,
    /// Lock names with control characters.
    name: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Clients {
    about: String,
    nodes: Vec<String>,
    /// Texts that the error contains.
    #[serde(default)]
    says: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    about: String,
    options: BTreeMap<String, PathBuf>,
    says: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    about: String,
    name: String,
    /// The name as messages show it.
    shown: String,
}

fn secrets() -> Secrets {
    read("secrets")
}

/// Checks that the error contains the required text, and that no format of it contains a secret.
fn check(about: &str, error: &Error, words: &[String]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{about}: {word:?} is not in {text}");
    }
    let all = format!("{text} {error:?} {:?}", error.nodes());
    assert!(!all.contains("s3cret"), "{about}: {all}");
    assert!(!all.contains(is_control), "{about}: {all:?}");
    assert!(!has_token(&all), "{about}: {all}");
    assert!(text.len() < 1000, "{about}: {text}");
}

/// Whether the text contains as many hex digits in sequence as a token.
fn has_token(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_hexdigit()).any(|digits| digits.len() >= 32)
}

/// Whether a terminal or a log viewer could interpret the character instead of showing it.
fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{202e}')
}

#[test]
fn refused_values_are_not_shown() {
    for Clients { about, nodes, says } in secrets().refused {
        let error = Redlock::builder(nodes).build().expect_err(&about);
        check(&about, &error, &says);
    }
}

#[test]
fn invalid_paths_are_not_shown() {
    for Tls { about, mut options, says } in secrets().tls {
        let mut tls = TlsOptions::new();
        for (name, set) in [
            ("ca", TlsOptions::ca as fn(_, _) -> _),
            ("cert", TlsOptions::cert),
            ("key", TlsOptions::key),
        ] {
            tls = match options.remove(name) {
                Some(text) => set(tls, text),
                None => tls,
            };
        }
        assert!(!format!("{tls:?}").contains("s3cret"), "{about}: {tls:?}");
        let error = Redlock::builder(["rediss://127.0.0.1:1"]).tls(tls).build().expect_err(&about);
        check(&about, &error, &says);
    }
}

#[tokio::test]
async fn accepted_secrets_are_not_shown() {
    for Clients { about, nodes, .. } in secrets().accepted {
        let redlock = Redlock::builder(nodes).build().expect(&about);
        let lock = redlock.lock("job").wait(Duration::ZERO);
        let error = lock.acquire().await.unwrap_err();
        check(&about, &error, &[]);
        let shown = format!("{redlock:?} {lock:?} {:?}", redlock.nodes());
        assert!(!shown.contains("s3cret"), "{about}: {shown}");
    }
}

#[tokio::test]
async fn server_texts_are_shown_escaped_without_passwords() {
    for row in secrets().said {
        let fake = Fake::start(&row, true);
        let redlock = Redlock::builder([fake.url()]).node_timeout(millis(3000)).build().unwrap();
        let lock = redlock.lock("job").wait(Duration::ZERO);
        let error = lock.acquire().await.unwrap_err();
        check(&row.about, &error, &row.cause);
        let seen = format!("{:?}", lock.inspect().await);
        assert!(!seen.contains("s3cret") && !has_token(&seen), "{}: {seen}", row.about);
    }
}

#[tokio::test]
async fn names_are_shown_escaped_and_used_unchanged() {
    let server = Server::start();
    let redlock = client([&server]);
    for Named { about, name, shown } in secrets().name {
        let lock = redlock.lock(name.clone()).wait(Duration::ZERO);
        let lease = lock.acquire().await.unwrap();
        assert_eq!(lease.key(), format!("lock:{name}"), "{about}");
        let error = lock.acquire().await.unwrap_err();
        check(&about, &error, std::slice::from_ref(&shown));
        assert_eq!(error.resource(), Some(&*lease.key()), "{about}");
        redlock.force_release(name).await.unwrap();
        let lost = lease.lost().await;
        check(&about, &lost, std::slice::from_ref(&shown));
        let shown = format!("{lock:?} {lease:?}");
        assert!(!shown.contains(is_control) && !has_token(&shown), "{about}: {shown:?}");
    }
}
