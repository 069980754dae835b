//! Unknown option names, and what to use instead.
//!
//! The known ones of other libraries are those of redis-py, python-redis-lock, pottery, redlock-py, aioredlock, node-redlock, redis-semaphore and
//! Redis clients.

use super::options::{CLIENT_OPTIONS, LOCK_OPTIONS, Row};
use crate::lock::options::Unit;
use crate::text::spelled;

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
    let foreign = ours(&option, unit.word()).or_else(|| nothing(&option).map(str::to_owned));
    if let Some(advice) = foreign {
        return advice;
    }
    let similar = similar(&given, valid.iter().copied());
    if !similar.is_empty() {
        return format!("Use {}", similar.join(" or "));
    }
    let elsewhere = of_table(&given, LOCK_OPTIONS, "lock")
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

/// States that the option belongs to a lock or to a client, not to this call.
fn of_table<T>(option: &[String], table: &[Row<T>], owner: &str) -> Option<String> {
    let names = similar(option, table.iter().map(|row| row.name));
    let [name] = &names[..] else { return None };
    Some(format!("{name} is an option of the {owner}. "))
}

/// Advice for options of other libraries that one of our options replaces. Names are in snake case.
fn ours(option: &str, unit: &str) -> Option<String> {
    let max_hold = spelled("max_hold");
    let text = match option {
        // `timeout` is a TTL in redis-py, and a wait in other libraries.
        "timeout" => {
            format!(
                "Use ttl for the lifetime of the lease and wait for the maximum waiting time, both in {unit}"
            )
        }
        "expire" | "duration" | "auto_release_time" | "lock_timeout" | "internal_lock_timeout" => {
            format!("Use ttl, the lifetime of the lease in {unit}")
        }
        "blocking_timeout"
        | "context_manager_timeout"
        | "retry_count"
        | "retry_attempts"
        | "acquire_timeout"
        | "acquire_attempts_limit" => {
            format!("Use wait, the maximum waiting time in {unit}. 0 tries once")
        }
        "blocking" | "context_manager_blocking" => {
            "Use wait. 0 tries once, and without wait the acquire waits forever".to_owned()
        }
        "num_extensions" => format!("Use {max_hold}, the maximum hold time in {unit}"),
        "auto_renewal" | "automatic_extension_threshold" | "refresh_interval" => {
            format!(
                "Use renew, which is on by default and renews at a third of the ttl. {max_hold} limits the hold time"
            )
        }
        "on_lock_lost" => {
            format!(
                "Use {} of the lease, which is called when the lease is lost",
                spelled("on_lost")
            )
        }
        "socket_timeout" | "command_timeout" => {
            format!(
                "Use {}, the timeout for the reply of one node in {unit}",
                spelled("node_timeout")
            )
        }
        "socket_connect_timeout" => {
            format!("Use {}, the timeout for connecting in {unit}", spelled("connect_timeout"))
        }
        _ => return None,
    };
    Some(text)
}

/// Advice for options of other libraries without a replacement.
fn nothing(option: &str) -> Option<&'static str> {
    let text = match option {
        "sleep" | "retry_delay" | "retry_jitter" | "retry_interval" | "retry_delay_min"
        | "retry_delay_max" => {
            "Remove it. Waiting callers are notified of a release, so there is no retry delay to set. wait limits the \
             waiting time"
        }
        // redis-py keeps the token in a thread-local by default.
        "thread_local" => "Remove it. A lease is an object that any thread may use",
        "lock_class" => "Remove it. There is only one kind of lock",
        // pottery uses this to distinguish a failed node from one that refused.
        "raise_on_redis_errors" => "Remove it. Failed nodes always cause a separate error",
        "raise_on_release_error" => {
            "Remove it. The end of a scope reports a loss, unless the body failed with an error"
        }
        "drift_factor" | "clock_drift_factor" => {
            "Remove it. Clock drift is always taken into account"
        }
        // A token chosen by the caller might not be unique.
        "id" | "token" | "lock_identifier" | "identifier" | "acquired_externally" => {
            "Use attach, which continues the lease with this token"
        }
        // python-redis-lock uses these for waking waiters.
        "strict" | "signal_expire" => "Remove it. The server notifies waiting callers",
        // The URL is the only place for a node's address and credentials.
        "host" | "port" | "db" | "username" | "password" | "ssl" => {
            "Write it into the node's URL: redis://[user:password@]host[:port][/db], or rediss:// for TLS"
        }
        _ => return None,
    };
    Some(text)
}
