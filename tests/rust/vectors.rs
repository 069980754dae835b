//! The shared vectors, as the core sees them.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock::{ClientArgs, Error, LockArgs, Redlock, Tally, Unit, default_nodes, drift};
use serde::Deserialize;

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
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
fn tally() {
    for case in read::<Cases<TallyCase>>("tally").case {
        let mut tally = Tally::new(case.nodes);
        (0..case.granted).for_each(|_| tally.grant());
        (0..case.refused).for_each(|_| tally.refuse());
        (0..case.faults).for_each(|_| tally.fault());
        let said = (tally.met(), tally.can_be_met(), tally.denied(), tally.unavailable());
        let expected = (case.met, case.can_be_met, case.denied, case.unavailable);
        assert_eq!(said, expected, "{tally:?}");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValidityCase {
    ttl: u64,
    drift: u64,
}

#[test]
fn validity() {
    for case in read::<Cases<ValidityCase>>("validity").case {
        let expected = Duration::from_millis(case.drift);
        assert_eq!(drift(Duration::from_millis(case.ttl)), expected, "ttl {} ms", case.ttl);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionCases {
    lock: Vec<LockCase>,
    client: Vec<ClientCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockCase {
    about: String,
    seconds: Option<BTreeMap<String, Number>>,
    milliseconds: Option<BTreeMap<String, Number>>,
    names: Option<Vec<String>>,
    long_name: Option<usize>,
    nodes: Option<Vec<String>>,
    #[serde(default)]
    error: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientCase {
    about: String,
    nodes: Vec<String>,
    #[serde(default)]
    error: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Value(f64),
    Word(String),
}

impl Number {
    fn value(&self) -> f64 {
        match self {
            Self::Value(value) => *value,
            Self::Word(word) => word.parse().unwrap(),
        }
    }
}

fn check<T>(about: &str, outcome: Result<T, Error>, words: &[String], never: &[String]) {
    match outcome {
        Ok(_) => assert!(words.is_empty(), "{about}: was allowed"),
        Err(error) => {
            assert!(!words.is_empty(), "{about}: {error}");
            assert_eq!(error.code(), "invalid", "{about}");
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{about}: {text}");
            assert!(!never.iter().any(|word| text.contains(word)), "{about}: {text}");
        }
    }
}

#[test]
fn lock_options() {
    for case in read::<OptionCases>("options").lock {
        let nodes = case.nodes.clone().unwrap_or_else(|| vec!["memory://options".into()]);
        let redlock = Redlock::from_args(nodes, &ClientArgs::default()).unwrap();
        let long = case.long_name.map(|length| vec!["x".repeat(length)]);
        let names = case.names.clone().or(long).unwrap_or_else(|| vec!["name".into()]);
        let neither = case.seconds.is_none() && case.milliseconds.is_none();
        let seconds = case.seconds.or_else(|| neither.then(BTreeMap::new));
        let given = [(Unit::Seconds, seconds), (Unit::Milliseconds, case.milliseconds)];
        for (unit, given) in given {
            let Some(given) = given else { continue };
            let get = |name: &str| given.get(name).map(Number::value);
            let args = LockArgs {
                unit,
                ttl: get("ttl"),
                wait: get("wait"),
                renew: None,
                max_hold: get("max_hold"),
                node_timeout: get("node_timeout"),
                fencing: None,
            };
            check(&case.about, redlock.lock_from_args(names.clone(), &args), &case.error, &[]);
        }
    }
}

#[test]
fn client_options() {
    for case in read::<OptionCases>("options").client {
        let outcome = Redlock::from_args(case.nodes, &ClientArgs::default());
        check(&case.about, outcome, &case.error, &case.never);
    }
}

#[test]
fn the_default_clients_nodes() {
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
    error: Vec<ErrorCase>,
}

#[derive(Deserialize)]
struct ErrorCase {
    code: String,
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
    let nobody = Redlock::builder(["redis://127.0.0.1:1"]).build().unwrap();
    seen.push(nobody.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err().code());
    seen.push(redlock.lock("").acquire().await.unwrap_err().code());
    redlock.close();
    seen.push(redlock.lock("job").acquire().await.unwrap_err().code());
    let codes: Vec<String> = read::<Errors>("errors").error.into_iter().map(|e| e.code).collect();
    assert_eq!(seen, codes);
}
