//! Decides whether an error of a server is permanent, and explains it ([`refusal`]). Formats replies as text.

use redis::{ServerError, Value};

use crate::node::Fault;
use crate::text::camel_case;

/// Whether it is the read-only error of a replica.
pub(crate) fn is_replicas(value: &Value) -> bool {
    matches!(value, Value::ServerError(_)) && error_code(&words(value)) == "READONLY"
}

/// The codes of a server that cannot carry out any command of this kind for now, so that such an error tells nothing
/// about the command. They do not decide what is tried again: that is every error except those of [`refusal`].
const NOT_NOW: [&str; 8] =
    ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "TRYAGAIN"];

/// The codes of errors about the server of a key, the login, the rights of the user, or a script that is not loaded.
const OF_OTHER_CAUSES: [&str; 9] = [
    "ASK",
    "CROSSSLOT",
    "DENIED",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOSCRIPT",
    "READONLY",
    "WRONGPASS",
];

/// Whether a server cannot carry out any such command for now.
pub(crate) fn is_not_now(value: &Value) -> bool {
    matches!(value, Value::ServerError(_)) && NOT_NOW.contains(&error_code(&words(value)))
}

/// Whether the reply to a trial, which changes nothing and is valid, means that the server does not have the command.
/// `replied` means that it replied to another trial on the same key. Then any error counts that has no known other
/// cause. Otherwise it may be that of a proxy whose server is down.
pub(crate) fn is_missing(error: &ServerError, replied: bool) -> bool {
    let text = text_of(error);
    let code = error_code(&text);
    let other = NOT_NOW.contains(&code) || OF_OTHER_CAUSES.contains(&code);
    let other = other || is_full(error) || text.contains("cluster is down");
    is_unknown(error) || (replied && !other)
}

/// Returns the code of an error, including one within a script.
fn error_code(text: &str) -> &str {
    without_position(text).split_whitespace().next().unwrap_or_default()
}

/// Removes the position in a script from the text of an error, which tells users nothing.
fn without_position(text: &str) -> &str {
    // Before Redis 7, the position comes first: `ERR Error running script (call to f_0): @user_script:12: -ERR no`.
    let in_script = text.starts_with("ERR Error running script");
    let text = text.rsplit_once(": ").filter(|_| in_script).map_or(text, |(_, said)| said);
    let text = text.trim_start_matches('-');
    let end = text.rsplit_once(" script: ").filter(|(_, position)| position.contains(", on @"));
    end.map_or(text, |(said, _)| said)
}

/// Whether the error has a specific code, as those of a Redis server do. `ERR` and the free text of proxies may only
/// mean that a command is not supported.
pub(crate) fn has_code(error: &ServerError) -> bool {
    let code = error.code();
    code != "ERR" && code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Whether the server, or a proxy before it, does not know the command, by the error texts of known servers and
/// proxies.
pub(crate) fn is_unknown(error: &ServerError) -> bool {
    const WORDS: [&str; 5] = [
        "unknown command",
        "unsupported command",
        "invalid request",
        "not available",
        "not supported",
    ];
    let text = text_of(error).to_lowercase();
    !has_code(error) && WORDS.iter().any(|words| text.contains(words))
}

/// Whether the server has no room for another connection. It then closes the connection, whatever the command.
pub(crate) fn is_full(error: &ServerError) -> bool {
    text_of(error).starts_with("ERR max number of clients")
}

/// Returns the text of an error with its code.
pub(crate) fn text_of(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default())
}

/// Whether the reply may mean that the command is not supported.
pub(crate) fn is_unsupported(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if !has_code(error))
}

/// Removes the arguments of an unknown command from the error text, which may include a whole script.
pub(crate) fn without_arguments(text: &str) -> &str {
    text.split_once(", with args beginning with").map_or(text, |(said, _)| said)
}

/// Explains the error of the fencing scripts.
const FENCE_HINT: &str = " (it stores a fencing token that no client can have stored; see the page Fencing \
     tokens#repair of the documentation)";

/// Explains a key with data of another type.
fn wrong_type() -> &'static str {
    if camel_case() {
        " (the key has data of another type, so it is not a lock; choose another name or keyPrefix)"
    } else {
        " (the key has data of another type, so it is not a lock; choose another name or key_prefix)"
    }
}

/// Explains a syntax error. All commands are valid since Redis 6.2, which has the last of them: `SET PXAT` for fencing,
/// and `ZADD GT` for readers.
fn too_old() -> &'static str {
    if camel_case() {
        " (fencing, readers, minHold need Redis 6.2 or newer; see the page Server compatibility of the documentation)"
    } else {
        " (fencing, readers, min_hold need Redis 6.2 or newer; see the page Server compatibility of the documentation)"
    }
}

/// Returns the error of a server, with a hint if its text is not enough.
pub(crate) fn refusal(text: &str) -> Fault {
    let text = without_position(without_arguments(text));
    let code = error_code(text);
    let denied_in_script = text.contains("can't run this command") || text.contains("ACL failure");
    let hint = match code {
        _ if denied_in_script => {
            " (its user lacks a right in scripts: GET, SET, DEL, PTTL, PEXPIRE, for readers also TIME, ZADD, ZREM, \
             ZRANGE, ZREMRANGEBYSCORE and ZSCORE, TIME for fencing, or SCAN for a list)"
        }
        "WRONGTYPE" => wrong_type(),
        "NOPERM" if text.contains("cluster|") => {
            " (clusters need CLUSTER SLOTS and CLUSTER NODES, and ASKING; see the page Security of the documentation)"
        }
        "NOPERM" if text.contains("access a key") || text.contains("access one of the keys") => {
            " (its user needs the keys of all locks, such as ~lock:*, and for fencing also ~{lock:*}:fence; see the page \
             Security of the documentation)"
        }
        "NOPERM" => {
            " (locks need EVALSHA, SCRIPT LOAD, GET, SET, PTTL, PEXPIRE and DEL on their keys; see the page Security of \
             the documentation)"
        }
        "CLUSTERDOWN" if text.to_lowercase().contains("hash slot") => {
            " (no server has the key's hash slot; see the page Redis Cluster of the documentation)"
        }
        "CLUSTERDOWN" => {
            " (the server reaches too few masters, or another hash slot has no server; see the page Redis \
             Cluster of the documentation)"
        }
        "NOAUTH" => " (add the password to the node's URL)",
        "READONLY" => " (the server is a replica)",
        "MOVED" | "ASK" | "CROSSSLOT" => {
            " (this is a Redis Cluster; use redis+cluster://host:port)"
        }
        "FENCE" => FENCE_HINT,
        "ERR" if text.contains("syntax error") => too_old(),
        _ => "",
    };
    let replied = "the server replied ";
    let fault = match code {
        "WRONGTYPE" => Fault::unsupported(replied),
        "ERR" if text.contains("syntax error") => Fault::unsupported(replied),
        "MOVED" | "ASK" | "CROSSSLOT" => Fault::invalid(replied),
        _ => Fault::new(replied),
    };
    // The server's text continues with details of the protocol.
    let text = if code == "NOAUTH" { code } else { text };
    let refused = denied_in_script || matches!(code, "NOPERM" | "WRONGPASS" | "NOAUTH" | "DENIED");
    let fault = if refused { fault.refused() } else { fault };
    fault.declined().saying(text, hint)
}

/// Formats a value as text. Bytes are shown as text and not as numbers, so that a password in them can be redacted.
pub(crate) fn words(value: &Value) -> String {
    let all = |values: &[Value]| values.iter().map(words).collect::<Vec<_>>().join(" ");
    match value {
        Value::Nil => "nothing".to_owned(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        Value::Array(values) | Value::Set(values) => format!("({})", all(values)),
        Value::Push { data, .. } => format!("({})", all(data)),
        Value::Map(pairs) => {
            let pair = |(key, value): &(Value, Value)| format!("{} {}", words(key), words(value));
            format!("({})", pairs.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
        Value::Attribute { data, .. } => words(data),
        Value::ServerError(error) => text_of(error),
        Value::Double(number) => number.to_string(),
        Value::Boolean(yes) => yes.to_string(),
        _ => "a value of another type".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::node::Remedy;

    #[test]
    fn error_code_marks_permanent_errors() {
        for (text, kind) in [
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                Some(ErrorKind::Unsupported),
            ),
            (
                "ERR Error running script (call to f_0): @user_script:12: WRONGTYPE Operation",
                Some(ErrorKind::Unsupported),
            ),
            ("NOPERM this user may not touch the key 'WRONGTYPE'", None),
            ("ERR unknown command 'WRONGTYPE'", None),
            ("LOADING of: WRONGTYPE", None),
            ("MOVED 3999 127.0.0.1:6381", Some(ErrorKind::Invalid)),
            ("ASK 3999 127.0.0.1:6381", Some(ErrorKind::Invalid)),
            ("CROSSSLOT Keys in request don't hash to the same slot", Some(ErrorKind::Invalid)),
        ] {
            assert_eq!(refusal(text).permanent(), kind, "{text}");
        }
    }

    #[test]
    fn only_user_refusals_are_permanent() {
        for (text, remedy) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", Remedy::Refused),
            ("NOAUTH Authentication required.", Remedy::Refused),
            ("NOPERM No permissions to access a key", Remedy::Refused),
            ("DENIED Redis is running in protected mode", Remedy::Refused),
            (
                "ERR Error running script (call to f_0): @user_script:12: The user executing the script can't run this command or subcommand",
                Remedy::Refused,
            ),
            ("LOADING Redis is loading the dataset in memory", Remedy::Retry),
            ("READONLY You can't write against a read only replica.", Remedy::Retry),
            ("MASTERDOWN Link with MASTER is down", Remedy::Retry),
            ("OOM command not allowed when used memory > 'maxmemory'", Remedy::Retry),
            ("BUSY Redis is busy running a script", Remedy::Retry),
            ("CLUSTERDOWN The cluster is down", Remedy::Retry),
            ("ERR max number of clients reached", Remedy::Retry),
        ] {
            assert_eq!(refusal(text).remedy(), remedy, "{text}");
        }
    }

    #[test]
    fn explains_why_a_cluster_is_down() {
        let shown = |text| refusal(text).redacted(str::to_owned).to_string();
        // Redis refuses all slots when another one has no server, or when it is in a minority.
        let down = shown("CLUSTERDOWN The cluster is down");
        assert!(!down.contains("key's hash slot"), "{down}");
        let unserved = shown("CLUSTERDOWN Hash slot not served");
        assert!(unserved.contains("no server has the key's hash slot"), "{unserved}");
    }

    #[test]
    fn error_of_a_script_hides_the_position() {
        for text in [
            "OOM command not allowed script: 84d5ad37, on @user_script:9.",
            "ERR Error running script (f_0) @user_script:12: -OOM command not allowed",
        ] {
            let shown = refusal(text).redacted(str::to_owned).to_string();
            assert_eq!(shown, "the server replied OOM command not allowed");
        }
    }

    #[test]
    fn denial_names_the_rights_of_its_command() {
        let shown = |text| refusal(text).redacted(str::to_owned).to_string();
        let cluster =
            shown("NOPERM User app has no permissions to run the 'cluster|slots' command");
        assert!(cluster.contains("(clusters need CLUSTER SLOTS"), "{cluster}");
        let command = shown("NOPERM User app has no permissions to run the 'evalsha' command");
        assert!(command.contains("(locks need EVALSHA"), "{command}");
        let one = "NOPERM this user has no permissions to access one of the keys";
        for text in ["NOPERM No permissions to access a key", one] {
            let key = shown(text);
            assert!(key.contains("~lock:*, and for fencing"), "{key}");
        }
    }

    #[test]
    fn unknown_command_error_hides_arguments() {
        let text = "ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' '-- lua";
        let shown = refusal(text).redacted(str::to_owned).to_string();
        assert_eq!(shown, "the server replied ERR unknown command 'SCRIPT'");
    }
}
