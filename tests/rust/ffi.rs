//! The code that both bindings share: the table of options, and an acquire with a late caller.

use std::time::Duration;

use redlock::ffi::{
    self, Acquire, AddressMapOption, CLIENT_OPTIONS, ClientArgs, Kind, LOCK_OPTIONS, LockArgs,
    Unit, Value,
};
use redlock::{Lock, Redlock};

fn client(name: &str) -> Redlock {
    let nodes = vec![format!("memory://{name}")];
    ffi::client(nodes, &ClientArgs::of_client(Unit::Milliseconds)).unwrap()
}

fn lock(client: &Redlock, ttl: f64, wait: f64) -> Lock {
    let args = LockArgs::of_lock(Unit::Milliseconds);
    let args = args.with("ttl", Some(ttl)).with("wait", Some(wait)).with("renew", Some(false));
    ffi::lock(client, vec!["job".into()], &args).unwrap()
}

fn valid_value<T>(kind: &Kind<T>) -> Value {
    match kind {
        Kind::Time(_) | Kind::TimeOrForEver(_) | Kind::TimeOrNull(_) => Value::Number(20.0),
        Kind::Count(..) => Value::Number(2.0),
        Kind::Switch(_) | Kind::Label(_) => Value::Switch(true),
        Kind::Text(_) => Value::Text("text".into()),
        Kind::Pem(_) => Value::Pem("file.pem".into()),
        Kind::Credentials(_) => Value::Credentials(std::sync::Arc::new(|(), _| {})),
        Kind::AddressMap(_) => Value::AddressMap(AddressMapOption::Table(Vec::new())),
    }
}

/// Options of TLS, of replicas, of disks and of announced addresses.
fn unsupported_by_memory(name: &str) -> bool {
    name.starts_with("tls_") || ["min_replicas", "fsync", "address_map"].contains(&name)
}

#[test]
fn option_table_accepts_only_its_types() {
    let names = vec!["job".to_owned()];
    for row in LOCK_OPTIONS {
        assert!(!row.about.is_empty() && !row.default.is_empty(), "{}", row.name);
        let args = LockArgs::of_lock(Unit::Seconds).with("ttl", Some(60.0));
        let taken =
            ffi::check_lock(&names, &args.clone().with(row.name, Some(valid_value(&row.kind))));
        taken.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        let error = ffi::check_lock(&names, &args.with(row.name, Some("a text".to_owned())));
        assert_eq!(error.unwrap_err().code(), "invalid", "{}", row.name);
    }
    for row in CLIENT_OPTIONS {
        let args =
            ClientArgs::of_client(Unit::Seconds).with(row.name, Some(valid_value(&row.kind)));
        // An option that this kind of node does not support is refused, which shows that it arrived.
        let made = ffi::client(vec!["memory://table".into()], &args);
        assert_eq!(made.is_err(), unsupported_by_memory(row.name), "{}", row.name);
        if let Err(error) = made {
            assert!(error.to_string().contains(row.name), "{error}");
        }
    }
    let unknown = LockArgs::of_lock(Unit::Seconds).with("patience", Some(1.0));
    assert_eq!(ffi::check_lock(&names, &unknown).unwrap_err().code(), "invalid");
}

#[test]
fn misspelled_option_is_guessed() {
    let valid: Vec<_> = LOCK_OPTIONS.iter().map(|row| row.name).collect();
    let rows = [
        ("tll", "ttl"),
        ("tt", "ttl"),
        ("wiat", "wait"),
        ("waits", "wait"),
        ("renw", "renew"),
        ("max_hlod", "max_hold"),
        ("maxhodl", "max_hold"),
        ("nodeTimout", "node_timeout"),
        ("fenceing", "fencing"),
    ];
    for (written, meant) in rows {
        let text = ffi::instead_of(written, &valid, Unit::Seconds);
        assert_eq!(text, format!("Did you mean {meant}?"), "{written}");
    }
    for unrelated in ["patience", "x", "", "owner", "colour"] {
        let text = ffi::instead_of(unrelated, &valid, Unit::Seconds);
        assert!(text.contains("Valid options: ttl, wait"), "{unrelated}: {text}");
    }
}

#[test]
fn checks_options_before_a_client_exists() {
    let check = |name: &str, ttl: f64| {
        let args = LockArgs::of_lock(Unit::Milliseconds).with("ttl", Some(ttl));
        ffi::check_lock(&[name.to_owned()], &args.with("fencing", Some(true)))
    };
    check("job", 100.0).unwrap();
    // The default client may have one node or several, so the limit by its guard is not known yet.
    check("job", 600_000.0).unwrap();
    for (name, ttl) in [("job", 99.0), ("", 100.0), ("a}b", 100.0), ("x{t}:fence", 100.0)] {
        assert_eq!(check(name, ttl).unwrap_err().code(), "invalid", "{name} {ttl}");
    }
}

#[tokio::test]
async fn expired_lease_is_acquired_again_within_its_wait() {
    let lock = lock(&client("late"), 100.0, 60_000.0);
    let acquire = Acquire::new(&lock, None, Unit::Milliseconds, None).unwrap();
    assert!(acquire.may_wait());
    let granted = acquire.acquire().await;
    std::thread::sleep(Duration::from_millis(120));
    assert!(acquire.accept(granted).is_none(), "an ended lease was handed out");
    let again = acquire.accept(acquire.acquire().await).expect("a lease in time").unwrap().unwrap();
    assert!(again.is_held());
    // The wait comes out of the call's budget, not the lock's.
    let short = Acquire::new(&lock, Some(30.0), Unit::Milliseconds, None).unwrap();
    let error = short.accept(short.acquire().await).unwrap().unwrap_err();
    assert_eq!(error.code(), "timeout", "{error}");
    assert!(error.waited().unwrap() >= Duration::from_millis(30));
    let last = short.accept(short.acquire().await).unwrap().unwrap_err();
    assert!(last.waited().unwrap() < Duration::from_millis(30), "a second budget: {last}");
    again.release().await.unwrap();
}

#[tokio::test]
async fn expired_try_acquire_is_tried_again_without_waiting() {
    let lock = lock(&client("once"), 100.0, 60_000.0);
    let once = Acquire::once(&lock);
    assert!(!once.may_wait());
    let granted = once.acquire().await;
    std::thread::sleep(Duration::from_millis(120));
    assert!(once.accept(granted).is_none());
    let lease = once.accept(once.acquire().await).unwrap().unwrap().expect("it is free");
    assert!(Acquire::once(&lock).acquire().await.unwrap().is_none(), "another client holds it");
    lease.release().await.unwrap();
}

/// Also for names that no test expects: none of them panics or suggests every option.
#[test]
fn strange_option_names_list_the_valid_ones() {
    for name in ["", "_", "-", "É", "ß_", "ı\u{307}", "\0"] {
        let text = ffi::instead_of(name, &["ttl", "wait"], Unit::Seconds);
        assert_eq!(text, "Valid options: ttl, wait");
    }
}
