//! The shared vectors as the core sees them.

use std::time::Duration;

use redlock::ffi::{Tally, default_nodes, drift};
use redlock::{Error, Redlock};
use serde::Deserialize;

use crate::support::{Server, client, millis};

pub(crate) fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    let path = format!("{}/vectors/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TallyCase {
    nodes: usize,
    #[serde(default)]
    granted: usize,
    #[serde(default)]
    refused: usize,
    #[serde(default)]
    faults: usize,
    met: bool,
    can_be_met: bool,
    denied: bool,
    unavailable: bool,
}

#[derive(Deserialize)]
struct Cases<T> {
    case: Vec<T>,
}

#[test]
fn tally_matches_the_vectors() {
    for case in read::<Cases<TallyCase>>("tally").case {
        let mut tally = Tally::new(case.nodes);
        (0..case.granted).for_each(|_| tally.grant());
        (0..case.refused).for_each(|_| tally.refuse());
        (0..case.faults).for_each(|_| tally.fault());
        let result = (tally.met(), tally.can_be_met(), tally.denied(), tally.unavailable());
        let expected = (case.met, case.can_be_met, case.denied, case.unavailable);
        assert_eq!(result, expected, "{tally:?}");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValidityCase {
    ttl: u64,
    drift: u64,
}

#[test]
fn validity_matches_the_vectors() {
    for case in read::<Cases<ValidityCase>>("validity").case {
        let expected = Duration::from_millis(case.drift);
        assert_eq!(drift(Duration::from_millis(case.ttl)), expected, "ttl {} ms", case.ttl);
    }
}

#[test]
fn default_client_reads_its_nodes() {
    let some = |text: &str| Some(text.to_owned());
    let cases = [
        (None, None, vec!["redis://127.0.0.1:6379"]),
        (some(" "), some("redis://b"), vec!["redis://b"]),
        (
            some("redis://a redis://b\n redis://c"),
            some("redis://x"),
            vec!["redis://a", "redis://b", "redis://c"],
        ),
        (some("redis://a,redis://b"), None, vec!["redis://a", "redis://b"]),
        (
            some("redis+sentinel://h1:1,h2:2/main,redis://b"),
            None,
            vec!["redis+sentinel://h1:1,h2:2/main", "redis://b"],
        ),
    ];
    for (nodes, url, expected) in cases {
        assert_eq!(default_nodes(nodes, url).unwrap(), expected);
    }
}

#[derive(Deserialize)]
struct Errors {
    after_close: Vec<String>,
    error: Vec<ErrorCase>,
}

#[derive(Deserialize)]
struct ErrorCase {
    kind: String,
}

#[tokio::test]
async fn error_codes() {
    let mut seen = Vec::new();
    let redlock = Redlock::builder(["memory://codes"]).build().unwrap();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let busy = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    seen.push(busy.code());
    redlock.force_release("job").await.unwrap();
    seen.push(lease.lost().await.code());
    let lease = redlock.lock("job").acquire().await.unwrap().into_handle();
    lease.release().await.unwrap();
    seen.push(lease.ensure_held().unwrap_err().code());
    let closed_port = Redlock::builder(["redis://127.0.0.1:1"]).build().unwrap();
    seen.push(closed_port.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err().code());
    seen.push(redlock.lock("").acquire().await.unwrap_err().code());
    let server = Server::start();
    server.ask("HSET lock:job field value");
    seen.push(client([&server]).lock("job").acquire().await.unwrap_err().code());
    redlock.close();
    seen.push(redlock.lock("job").acquire().await.unwrap_err().code());
    let kinds: Vec<String> = read::<Errors>("errors").error.into_iter().map(|e| e.kind).collect();
    assert_eq!(seen, kinds);
}

#[tokio::test]
async fn use_after_close() {
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    redlock.close();
    for verb in read::<Errors>("errors").after_close {
        let lock = redlock.lock("closed");
        let outcome = match &*verb {
            "acquire" => lock.acquire().await.map(drop),
            "try_acquire" => lock.try_acquire().await.map(drop),
            "attach" => lock.attach(&"0".repeat(32)).await.map(drop),
            "inspect" => lock.inspect().await.map(drop),
            "force_release" => redlock.force_release("closed").await.map(drop),
            _ => panic!("{verb} is unknown"),
        };
        let error = outcome.unwrap_err();
        assert_eq!((error.code(), error.resource()), ("closed", Some("lock:closed")), "{verb}");
    }
}

#[derive(Deserialize)]
struct Keys {
    key: Vec<KeyCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyCase {
    about: String,
    set: Vec<String>,
    kind: String,
    says: Vec<String>,
}

#[tokio::test]
async fn reports_foreign_keys_and_preserves_them() {
    let server = Server::start();
    for (number, case) in read::<Keys>("keys").key.into_iter().enumerate() {
        let (redlock, name) = (client([&server]), format!("foreign-{number}"));
        let lock = redlock.lock(&*name).wait(millis(100));
        case.set.iter().for_each(|command| drop(server.ask(&command.replace("KEY", &lock.key()))));
        let before = server.ask(&format!("DEBUG DIGEST-VALUE {}", lock.key()));
        let mut errors: Vec<Error> = vec![lock.acquire().await.unwrap_err()];
        if case.kind == "unsupported" {
            errors.push(lock.inspect().await.unwrap_err());
            errors.push(redlock.force_release(&*name).await.unwrap_err());
            errors.push(lock.attach(&"0".repeat(32)).await.map(drop).unwrap_err());
        }
        for error in errors {
            assert_eq!(error.code(), case.kind, "{}: {error}", case.about);
            let text = error.to_string();
            let matches = [lock.key()].iter().chain(&case.says).all(|word| text.contains(word));
            assert!(matches, "{}: {text}", case.about);
        }
        assert_eq!(server.ask(&format!("DEBUG DIGEST-VALUE {}", lock.key())), before);
    }
}
