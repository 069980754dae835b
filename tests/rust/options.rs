//! The shared tables of options and arguments: what is refused, with which text, before any command is sent.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock::ffi::{CLIENT_OPTIONS, ClientArgs, LOCK_OPTIONS, LockArgs, Unit, instead_of};
use redlock::{Error, Redlock};
use serde::Deserialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{Silent, eventually};
use crate::vectors::read;

type Times = Option<BTreeMap<String, Number>>;

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
    seconds: Times,
    milliseconds: Times,
    names: Option<Vec<String>>,
    long_name: Option<usize>,
    many_names: Option<usize>,
    nodes: Option<usize>,
    #[serde(default)]
    error: Vec<String>,
    #[serde(default)]
    warning: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientCase {
    about: String,
    nodes: Vec<String>,
    tls_server_name: Option<String>,
    seconds: Times,
    milliseconds: Times,
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

/// The options of a row in each of its units.
fn units(seconds: Times, milliseconds: Times) -> Vec<(Unit, BTreeMap<String, f64>)> {
    let value = |number: Number| match number {
        Number::Value(value) => value,
        Number::Word(word) => word.parse().unwrap(),
    };
    let seconds =
        if milliseconds.is_none() { seconds.or_else(|| Some(BTreeMap::new())) } else { seconds };
    let given = [(Unit::Seconds, seconds), (Unit::Milliseconds, milliseconds)];
    let spoken = given.into_iter().filter_map(|(unit, options)| Some((unit, options?)));
    spoken
        .map(|(unit, options)| (unit, options.into_iter().map(|(k, v)| (k, value(v))).collect()))
        .collect()
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

fn lock_args(unit: Unit, options: &BTreeMap<String, f64>) -> LockArgs {
    let names = ["ttl", "wait", "max_hold", "min_hold", "node_timeout"];
    let with = |args: LockArgs, name| args.with(name, options.get(name).copied());
    names.into_iter().fold(LockArgs::of_lock(unit), with)
}

#[test]
fn checks_lock_options_before_sending() {
    let silent = [Silent::listen(), Silent::listen(), Silent::listen()];
    for case in read::<OptionCases>("options").lock {
        let nodes = silent.iter().take(case.nodes.unwrap_or(1)).map(Silent::url).collect();
        let redlock = redlock::ffi::client(nodes, &ClientArgs::of_client(Unit::Seconds)).unwrap();
        let long = case.long_name.map(|length| vec!["x".repeat(length)]);
        let many = case.many_names.map(|count| (0..count).map(|at| format!("name-{at}")).collect());
        let names = case.names.clone().or(long).or(many).unwrap_or_else(|| vec!["name".into()]);
        for (unit, options) in units(case.seconds, case.milliseconds) {
            let made = redlock::ffi::lock(&redlock, names.clone(), &lock_args(unit, &options));
            check(&case.about, made, &case.error, &[]);
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(!silent.iter().any(Silent::called), "something was sent");
}

#[test]
fn checks_client_options_before_sending() {
    let silent = Silent::listen();
    let here = |text: &String| text.replace("PORT", &silent.port().to_string());
    for case in read::<OptionCases>("options").client {
        let nodes: Vec<String> = case.nodes.iter().map(here).collect();
        let error: Vec<String> = case.error.iter().map(here).collect();
        for (unit, options) in units(case.seconds, case.milliseconds) {
            let args = ClientArgs::of_client(unit)
                .with("node_timeout", options.get("node_timeout").copied())
                .with("connect_timeout", options.get("connect_timeout").copied())
                .with("unavailable_after", options.get("unavailable_after").copied())
                .with("restart_guard", options.get("restart_guard").copied())
                .with("min_replicas", options.get("min_replicas").copied())
                .with("tls_server_name", case.tls_server_name.clone());
            check(&case.about, redlock::ffi::client(nodes.clone(), &args), &error, &case.never);
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(!silent.called(), "something was sent");
}

/// Rust's own API for options is checked when it is used, and equally early.
#[tokio::test]
async fn only_valid_options_reach_the_node() {
    let silent = Silent::listen();
    let redlock = Redlock::builder([silent.url()]).build().unwrap();
    let short = redlock.lock("job").ttl(Duration::from_millis(99)).acquire().await.unwrap_err();
    assert_eq!(short.code(), "invalid", "{short}");
    assert!(!silent.called());
    let lock = redlock.lock("job").ttl(Duration::from_millis(100)).wait(Duration::ZERO);
    assert_eq!(lock.acquire().await.unwrap_err().code(), "unavailable");
    assert!(silent.called(), "the proof that the others could fail");
}

/// The log lines of one thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

/// One line. Threads log at the same time, so the others see it only when it is complete.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlock") && *metadata.level() <= tracing::Level::WARN
    }
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn logs_each_warning_once() {
    let lines = Lines::default();
    let _listening = tracing::subscriber::set_default(lines.clone());
    for case in read::<OptionCases>("options").lock.into_iter().filter(|c| !c.warning.is_empty()) {
        lines.0.lock().unwrap().clear();
        for (unit, options) in units(case.seconds, case.milliseconds) {
            let redlock = redlock::ffi::client(
                vec!["memory://".into()],
                &ClientArgs::of_client(Unit::Seconds),
            )
            .unwrap();
            for _ in 0..3 {
                let lock =
                    redlock::ffi::lock(&redlock, vec!["w".into()], &lock_args(unit, &options));
                lock.unwrap().acquire().await.unwrap().release().await.unwrap();
            }
            // A separate thread writes the log in order.
            let last = redlock.lock("last").ttl(Duration::from_secs(9 * 365 * 24 * 3600));
            last.acquire().await.unwrap().release().await.unwrap();
            let logged =
                || lines.0.lock().unwrap().last().is_some_and(|line| line.contains("lock:last"));
            eventually("the last line", logged).await;
            let mut output = std::mem::take(&mut *lines.0.lock().unwrap());
            output.pop();
            let [line] = &output[..] else { panic!("{}: {output:?}", case.about) };
            let words = case.warning.iter().chain([&"WARN".to_owned()]).all(|w| line.contains(w));
            assert!(words, "{}: {line}", case.about);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    foreign: Vec<Foreign>,
    r#type: Vec<BTreeMap<String, toml::Value>>,
    argument: Vec<BTreeMap<String, toml::Value>>,
}

#[derive(Deserialize)]
struct Foreign {
    call: String,
    rust: String,
    options: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    says: Vec<String>,
}

/// The compiler refuses them all, so a row has the reason. The text that the other languages show comes from the core.
#[test]
fn unknown_options_name_ours() {
    for Foreign { call, rust, options } in read::<Arguments>("arguments").foreign {
        assert!(!rust.is_empty());
        let valid: Vec<_> = match &*call {
            "lock" => LOCK_OPTIONS.iter().map(|row| row.name).collect(),
            "client" => CLIENT_OPTIONS.iter().map(|row| row.name).collect(),
            _ => vec!["wait"],
        };
        for Named { name, says } in options {
            let text = instead_of(&name, &valid, Unit::Seconds);
            assert!(says.iter().all(|word| text.contains(word)), "{name}: {text}");
        }
    }
}

/// Also names that no test expects: none of them panics or suggests every option.
#[test]
fn strange_option_names_list_the_valid_ones() {
    for name in ["", "_", "-", "É", "ß_", "ı\u{307}", "\0"] {
        assert_eq!(instead_of(name, &["ttl", "wait"], Unit::Seconds), "Valid options: ttl, wait");
    }
}

#[tokio::test]
async fn refuses_invalid_values_of_valid_types() {
    let redlock = Redlock::builder(["memory://arguments"]).build().unwrap();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let Arguments { r#type, argument, .. } = read("arguments");
    assert!(r#type.iter().all(|row| row.contains_key("rust")));
    for row in argument.iter().filter(|row| !row.contains_key("rust")) {
        let words = row["says"].clone().try_into::<Vec<String>>().unwrap();
        let outcome = match row["call"].as_str().unwrap() {
            "extend" => lease.extend(Duration::ZERO).await,
            "force_release" => redlock.force_release("").await.map(drop),
            "attach" => redlock.lock("job").attach("").await.map(|lease| drop(lease.into_handle())),
            call => panic!("{call} can be called here, so call it"),
        };
        check(row["about"].as_str().unwrap(), outcome, &words, &[]);
    }
    assert!(lease.is_held());
}
