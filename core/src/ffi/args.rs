//! The options of a client or a lock as the bindings pass them, in the caller's unit and not checked yet.
//!
//! A binding passes options by name. The table in [`super::options`] defines how each is converted and where it is
//! stored. For an unknown name, [`instead_of`] knows a replacement, also for the options of redis-py,
//! python-redis-lock, pottery, redlock-py, aioredlock, node-redlock, redis-semaphore and Redis clients.

use std::time::Duration;

use super::client_options::CLIENT_OPTIONS;
use super::options::{LOCK_OPTIONS, LOCK_TABLES, ONCE_OPTIONS, Row, SEMAPHORE_OPTIONS, Value};
use crate::client::Redlock;
use crate::error::{Error, Result};
use crate::lock::{Lock, Names, check_alone};
use crate::node::DefaultTrust;
use crate::options::client::Settings;
use crate::options::lock::{Options, Unit};
use crate::text::{spelled, with_spelled};

/// The options that a caller passed, by their names in the table.
pub struct Args<T: 'static> {
    /// The unit of times, also in messages.
    unit: Unit,
    /// In the order of the binding. The first mistake is reported.
    given: Vec<(&'static str, Value)>,
    tables: &'static [&'static [Row<T>]],
}

/// The options of a lock.
pub type LockArgs = Args<Options>;

/// The options of a client.
pub type ClientArgs = Args<Settings>;

// Implemented manually, because a derive would require `T: Clone`.
impl<T> Clone for Args<T> {
    fn clone(&self) -> Self {
        Self { unit: self.unit, given: self.given.clone(), tables: self.tables }
    }
}

impl LockArgs {
    /// No options yet. Times will be in this unit.
    pub fn of_lock(unit: Unit) -> Self {
        Self { unit, given: Vec::new(), tables: LOCK_TABLES }
    }
}

impl ClientArgs {
    /// No options yet. Times will be in this unit.
    pub fn of_client(unit: Unit) -> Self {
        Self { unit, given: Vec::new(), tables: &[CLIENT_OPTIONS] }
    }
}

impl<T> Args<T> {
    /// Adds an option, if it has a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        self.given.extend(value.map(|value| (name, value.into())));
        self
    }

    /// The number passed for an option, unconverted.
    ///
    /// Used for warnings and `repr`.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.given.iter().find_map(|(given, value)| match value {
            Value::Number(number) if *given == name => Some(*number),
            _ => None,
        })
    }

    /// The options that were passed, unconverted.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.given.iter().map(|(name, value)| (*name, value))
    }

    /// Stores every option in `into`.
    ///
    /// # Errors
    ///
    /// `Invalid` at the first option that does not exist or has a value of the wrong kind.
    fn apply(&self, into: &mut T) -> Result<()> {
        for (name, value) in &self.given {
            let mut rows = self.tables.iter().copied().flatten();
            let row = rows.find(|row| row.name == *name);
            let row =
                row.ok_or_else(|| Error::invalid(format!("unknown option {}", spelled(name))))?;
            row.set(into, value, self.unit)?;
        }
        Ok(())
    }
}

/// [`Redlock::builder`] for the bindings. Does not connect.
///
/// # Errors
///
/// `Invalid` if an option breaks a rule.
pub fn client(nodes: Vec<String>, args: &ClientArgs) -> Result<Redlock> {
    client_trusting(nodes, args, None)
}

/// [`client`] in a language that may have its own trusted certificates.
///
/// # Errors
///
/// `Invalid` if an option breaks a rule.
pub fn client_trusting(
    nodes: Vec<String>,
    args: &ClientArgs,
    trust: Option<DefaultTrust>,
) -> Result<Redlock> {
    let mut builder = Redlock::builder(nodes);
    args.apply(&mut builder.0)?;
    builder.0.tls.default_trust = trust;
    builder.build()
}

/// [`Redlock::lock`] for the bindings. Checks every option immediately.
///
/// # Errors
///
/// `Invalid` if a name or an option breaks a rule.
pub fn lock(client: &Redlock, names: Vec<String>, args: &LockArgs) -> Result<Lock> {
    let lock = client.lock_with(names, options(args)?);
    // Checked here and not at the first acquire, so that the error points to the line with the wrong option.
    lock.request()?;
    Ok(lock)
}

/// A lock with the same client and options, on other names. [`check_names`] and each acquire check the names.
pub fn renamed(lock: &Lock, names: impl Into<Names>) -> Lock {
    lock.renamed(names.into())
}

/// Checks the names of a lock.
///
/// # Errors
///
/// `Invalid` if they break a rule.
pub fn check_names(lock: &Lock) -> Result<()> {
    lock.request().map(drop)
}

/// The prefix that the client puts before each name.
pub fn key_prefix(lock: &Lock) -> &str {
    &lock.config().key_prefix
}

/// Checks a lock before its client is known, because the default client may be chosen later.
///
/// # Errors
///
/// `Invalid` if a name or an option breaks a rule.
pub fn check_lock(names: &[String], args: &LockArgs) -> Result<()> {
    check_alone(names, &options(args)?)
}

/// The TTL of the lock, and how long its acquires may wait. `None` waits forever.
pub fn times(args: &LockArgs) -> Result<(Duration, Option<Duration>)> {
    options(args).map(|options| (options.ttl, options.wait()))
}

fn options(args: &LockArgs) -> Result<Options> {
    let mut options = Options { unit: args.unit, ..Options::default() };
    args.apply(&mut options)?;
    Ok(options)
}

/// What to write instead of an option that a call does not have.
///
/// The option may be one of ours in another spelling, another library's, one of another call, or a part of a name.
/// `valid` are the options of the call as the core spells them. The text fits every language.
pub fn instead_of(option: &str, valid: &[&str], unit: Unit) -> String {
    let given = words(option);
    let written = given.concat();
    if let Some(name) = valid.iter().find(|name| words(name).concat() == written) {
        return format!("Use {}", spelled(name));
    }
    let option = given.join("_");
    if let Some((_, advice)) =
        FOREIGN.iter().find(|(names, _)| names.split(' ').any(|name| name == option))
    {
        return with_spelled(advice, &OURS).replace("UNIT", unit.word());
    }
    let similar = similar(&given, valid.iter().copied());
    if !similar.is_empty() {
        return format!("Use {}", similar.join(" or "));
    }
    let of_lock = LOCK_OPTIONS.iter().any(|row| words(row.name) == given);
    if let Some(name) = nearest(&written, valid).filter(|_| !of_lock) {
        return format!("Did you mean {}?", spelled(name));
    }
    let elsewhere = of_table(&given, LOCK_OPTIONS, "lock")
        .or_else(|| of_table(&given, SEMAPHORE_OPTIONS, "semaphore"))
        .or_else(|| of_table(&given, ONCE_OPTIONS, "run of once()"))
        .or_else(|| of_table(&given, CLIENT_OPTIONS, "client"))
        .unwrap_or_default();
    let valid: Vec<_> = valid.iter().map(|name| spelled(name)).collect();
    format!("{elsewhere}Valid options: {}", valid.join(", "))
}

/// The words of a name in snake case or camel case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The names that have all words of the option, or only words of the option.
fn similar<'a>(option: &[String], names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all_in = |these: &[String], those: &[String]| these.iter().all(|word| those.contains(word));
    let alike = |name: &&str| all_in(option, &words(name)) || all_in(&words(name), option);
    names.filter(alike).filter(|_| !option.is_empty()).map(|name| spelled(name).into()).collect()
}

/// The valid name that this one is probably a misspelling of. Both are compared without separators.
fn nearest<'a>(written: &str, valid: &[&'a str]) -> Option<&'a str> {
    let distance = |name: &&str| edits(written, &words(name).concat());
    let name = valid.iter().copied().min_by_key(distance)?;
    // A third of the letters: one letter of `ttl`, and four of `unavailable_after`.
    (distance(&name) * 3 <= name.len()).then_some(name)
}

/// The number of letters to insert, delete, replace or swap with the next one that turn one text into the other.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<_>, Vec<_>) = (from.chars().collect(), to.chars().collect());
    // Row `i` has the distances of the first `i` letters of `from`.
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let differ = usize::from(from[i - 1] != to[j - 1]);
            let mut least =
                (rows[i - 1][j - 1] + differ).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

/// States that the option belongs to a lock or to a client, not to this call.
fn of_table<T>(option: &[String], table: &[Row<T>], owner: &str) -> Option<String> {
    let names = similar(option, table.iter().map(|row| row.name));
    let [name] = &names[..] else { return None };
    Some(format!("{name} is an option of the {owner}. "))
}

/// Our options that the advice names.
const OURS: [&str; 5] = ["max_hold", "on_lost", "node_timeout", "connect_timeout", "address_map"];

/// Advice for options of other libraries, whose names are in snake case and separated by spaces. `UNIT` is the caller's
/// unit of times.
const FOREIGN: &[(&str, &str)] = &[
    // `timeout` is a TTL in redis-py, and a wait in other libraries.
    (
        "timeout",
        "Use ttl for the lifetime of the lease and wait for the maximum waiting time, both in UNIT",
    ),
    (
        "expire duration auto_release_time lock_timeout internal_lock_timeout",
        "Use ttl, the lifetime of the lease in UNIT",
    ),
    (
        "blocking_timeout context_manager_timeout retry_count retry_attempts acquire_timeout acquire_attempts_limit",
        "Use wait, the maximum waiting time in UNIT. 0 tries once",
    ),
    (
        "blocking context_manager_blocking",
        "Use wait. 0 tries once, and without wait the acquire waits for the holder forever",
    ),
    // python-redis-lock, redis-py's users, threading, Redisson and redis-semaphore.
    (
        "value max_count max_concurrent max_leases max_locks count size slots bound max_permits",
        "Use semaphore() with limit, the number of permits",
    ),
    (
        "shared mode reader readers writer writers exclusive read_only read_lock write_lock",
        "Use rwlock(), whose read() and write() are locks",
    ),
    ("num_extensions", "Use max_hold, the maximum hold time in UNIT"),
    (
        "auto_renewal automatic_extension_threshold refresh_interval",
        "Use renew, which is on by default and renews at a third of the ttl. max_hold limits the hold time",
    ),
    ("on_lock_lost", "Use on_lost of the lease, which is called when the lease is lost"),
    (
        "socket_timeout command_timeout",
        "Use node_timeout, the timeout for the reply of one node in UNIT",
    ),
    ("socket_connect_timeout", "Use connect_timeout, the timeout for connecting in UNIT"),
    (
        "sleep retry_delay retry_jitter retry_interval retry_delay_min retry_delay_max",
        "Remove it. Waiting callers are notified of a release, so there is no retry delay to set. wait limits the \
         waiting time",
    ),
    // redis-py keeps the token in a thread-local by default.
    ("thread_local", "Remove it. A lease is an object that any thread may use"),
    ("lock_class", "Remove it. There is only one kind of lock"),
    // pottery uses this to distinguish a failed node from one that refused.
    ("raise_on_redis_errors", "Remove it. Failed nodes always cause a separate error"),
    (
        "raise_on_release_error",
        "Remove it. The end of a scope reports a loss, unless the body failed with an error",
    ),
    ("drift_factor clock_drift_factor", "Remove it. Clock drift is always taken into account"),
    // A token chosen by the caller might not be unique.
    (
        "id token lock_identifier identifier acquired_externally",
        "Use attach, which continues the lease with this token",
    ),
    // python-redis-lock uses these for waking waiters.
    ("strict signal_expire", "Remove it. The server notifies waiting callers"),
    (
        "address_remap nat_map node_address_map force_master_ip",
        "Use address_map, which says where to connect to servers that announce other addresses",
    ),
    // The URL is the only place for a node's address and credentials.
    (
        "host port db username password ssl",
        "Write it into the node's URL: redis://[user:password@]host[:port][/db], or rediss:// for TLS",
    ),
];
