//! Option names of other libraries, and what to use instead.
//!
//! They are those of redis-py, python-redis-lock, pottery, redlock-py, aioredlock, node-redlock, redis-semaphore and
//! Redis clients.

use crate::options::Unit;
use crate::spelling::spelled;

/// What to use instead of another library's option. `None` if the option is unknown.
///
/// The text fits every language.
pub fn instead_of(option: &str, unit: Unit) -> Option<String> {
    ours(option, unit.word()).or_else(|| nothing(option).map(str::to_owned))
}

/// Advice for options that one of our options replaces.
fn ours(option: &str, unit: &str) -> Option<String> {
    let max_hold = spelled("max_hold");
    let text = match option {
        // `timeout` is a TTL in redis-py, and a wait in other libraries.
        "timeout" => {
            format!(
                "Use ttl for how long the lease lives, wait for how long to wait for it, in {unit}"
            )
        }
        "expire"
        | "duration"
        | "auto_release_time"
        | "lock_timeout"
        | "lockTimeout"
        | "internal_lock_timeout" => {
            format!("Use ttl: how long the lease lives, in {unit}")
        }
        "blocking_timeout"
        | "context_manager_timeout"
        | "retryCount"
        | "retry_count"
        | "acquireTimeout"
        | "acquireAttemptsLimit" => {
            format!("Use wait: how long to go on trying, in {unit}; 0 tries once")
        }
        "blocking" | "context_manager_blocking" => {
            "Use wait: 0 tries once, without it the waiting has no end".to_owned()
        }
        "num_extensions" => format!("Use {max_hold}: it bounds the whole hold, in {unit}"),
        "auto_renewal" | "automaticExtensionThreshold" | "refreshInterval" => {
            format!(
                "Use renew: on by itself, at a third of the ttl. {max_hold} bounds the whole hold"
            )
        }
        "onLockLost" => {
            format!("Use {} of the lease: it is called when the lease is lost", spelled("on_lost"))
        }
        _ => return None,
    };
    Some(text)
}

/// Advice for options without a replacement.
fn nothing(option: &str) -> Option<&'static str> {
    let text = match option {
        "sleep" | "retryDelay" | "retryJitter" | "retryInterval" | "retry_delay"
        | "retry_delay_min" | "retry_delay_max" => {
            "Leave it out: waiters are woken, there is no pause to choose. wait is how long they go on"
        }
        // redis-py keeps the token in a thread-local by default.
        "thread_local" => "Leave it out: a lease is an object that may be handed to any thread",
        "lock_class" => "Leave it out: there is one kind of lock",
        // pottery uses this to distinguish a failed node from one that refused.
        "raise_on_redis_errors" => "Leave it out: nodes that fail are always an error of their own",
        "raise_on_release_error" => {
            "Leave it out: the end of a scope tells of a loss, unless the body's own error is under way"
        }
        "driftFactor" => "Leave it out: clock drift is always accounted for",
        // A token chosen by the caller might not be unique.
        "id" | "token" | "lock_identifier" | "identifier" | "acquiredExternally" => {
            "Use attach: it continues the lease that has this token"
        }
        // python-redis-lock uses these for waking waiters.
        "strict" | "signal_expire" => "Leave it out: waiters are woken by the server itself",
        // The URL is the only place for a node's address and credentials.
        "host" | "port" | "db" | "username" | "password" | "ssl" => {
            "Write it into the node's URL: redis://[user:password@]host[:port][/db], or rediss:// for TLS"
        }
        _ => return None,
    };
    Some(text)
}
