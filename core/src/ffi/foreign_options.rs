//! Option names of other libraries, and what to do instead: whoever brings one along is told, in every language.
//!
//! Read off the libraries that people come from: redis-py, python-redis-lock, pottery, redlock-py, aioredlock,
//! node-redlock, redis-semaphore and Redis clients.

use crate::options::Unit;
use crate::spelling::spelled;

/// What to do instead of giving another library's option; `None` if it is not one that we know.
///
/// The words fit every language.
pub fn instead_of(option: &str, unit: Unit) -> Option<String> {
    ours(option, unit.word()).or_else(|| nothing(option).map(str::to_owned))
}

/// Of an option that one of ours takes the place of.
fn ours(option: &str, unit: &str) -> Option<String> {
    let max_hold = spelled("max_hold");
    let text = match option {
        // redis-py's timeout is a ttl, everybody else's a wait.
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

/// Of an option that none of ours takes the place of.
fn nothing(option: &str) -> Option<&'static str> {
    let text = match option {
        "sleep" | "retryDelay" | "retryJitter" | "retryInterval" | "retry_delay"
        | "retry_delay_min" | "retry_delay_max" => {
            "Leave it out: waiters are woken, there is no pause to choose. wait is how long they go on"
        }
        // redis-py keeps the token in a thread-local by default.
        "thread_local" => "Leave it out: a lease is an object that may be handed to any thread",
        "lock_class" => "Leave it out: there is one kind of lock",
        // pottery's way to tell a node that fails from one that refuses.
        "raise_on_redis_errors" => "Leave it out: nodes that fail are always an error of their own",
        "raise_on_release_error" => {
            "Leave it out: the end of a scope tells of a loss, unless the body's own error is under way"
        }
        "driftFactor" => "Leave it out: clock drift is always accounted for",
        // A token of one's own would be one that somebody else may have too.
        "id" | "token" | "lock_identifier" | "identifier" | "acquiredExternally" => {
            "Use attach: it continues the lease that has this token"
        }
        // python-redis-lock's ways to be woken.
        "strict" | "signal_expire" => "Leave it out: waiters are woken by the server itself",
        // There is one place for where a node is and as whom to go there.
        "host" | "port" | "db" | "username" | "password" | "ssl" => {
            "Write it into the node's URL: redis://[user:password@]host[:port][/db], or rediss:// for TLS"
        }
        _ => return None,
    };
    Some(text)
}
