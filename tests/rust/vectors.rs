//! The shared vectors as the core sees them.

use std::time::Duration;

use redlock::ffi::{Tally, default_nodes, drift};
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
