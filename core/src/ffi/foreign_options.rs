//! Option names of other libraries, and what to use instead.
//!
//! They are those of redis-py, python-redis-lock, pottery, redlock-py, aioredlock, node-redlock, redis-semaphore and
//! Redis clients.

use crate::lock::options::Unit;
use crate::text::spelled;

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
                "Use ttl for the lifetime of the lease and wait for the maximum waiting time, both in {unit}"
            )
        }
        "expire"
        | "duration"
        | "auto_release_time"
        | "lock_timeout"
        | "lockTimeout"
        | "internal_lock_timeout" => {
            format!("Use ttl, the lifetime of the lease in {unit}")
        }
        "blocking_timeout"
        | "context_manager_timeout"
        | "retryCount"
        | "retry_count"
        | "acquireTimeout"
        | "acquireAttemptsLimit" => {
            format!("Use wait, the maximum waiting time in {unit}. 0 tries once")
        }
        "blocking" | "context_manager_blocking" => {
            "Use wait. 0 tries once, and without wait the acquire waits forever".to_owned()
        }
        "num_extensions" => format!("Use {max_hold}, the maximum hold time in {unit}"),
        "auto_renewal" | "automaticExtensionThreshold" | "refreshInterval" => {
            format!(
                "Use renew, which is on by default and renews at a third of the ttl. {max_hold} limits the hold time"
            )
        }
        "onLockLost" => {
            format!(
                "Use {} of the lease, which is called when the lease is lost",
                spelled("on_lost")
            )
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
        "driftFactor" => "Remove it. Clock drift is always taken into account",
        // A token chosen by the caller might not be unique.
        "id" | "token" | "lock_identifier" | "identifier" | "acquiredExternally" => {
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
