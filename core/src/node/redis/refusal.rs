//! What a server said, as text, and what its own errors mean.

use redis::Value;

use crate::node::Fault;
use crate::spelling::camel_case;

/// Whether a replica says that it does not write.
pub(super) fn is_replicas(value: &Value) -> bool {
    matches!(value, Value::ServerError(_)) && error_code(&words(value)) == "READONLY"
}

/// An error's own name, also where a script was around it.
fn error_code(text: &str) -> &str {
    // Before Redis 7 what a command in a script says comes behind where the script was.
    let in_script = text.starts_with("ERR Error running script");
    let said = text.rsplit_once(": ").filter(|_| in_script).map_or(text, |(_, said)| said);
    let code = said.split_whitespace().next().unwrap_or_default();
    code.trim_start_matches('-')
}

/// What the scripts' own error means.
const FENCE_HINT: &str = " (no client can have stored the fencing token that it keeps there: docs/fencing.md, \"Repair\")";

/// The server's own error, explained where its text alone would puzzle.
pub(super) fn refusal(text: &str) -> Fault {
    let code = error_code(text);
    let hint = match code {
        _ if text.contains("can't run this command") || text.contains("ACL failure") => {
            " (its user lacks a right in scripts: GET, SET, DEL, PTTL, PEXPIRE; for fencing and releases by force TIME)"
        }
        "WRONGTYPE" if camel_case() => {
            " (the key holds data of another type, it is no lock: choose another name or keyPrefix)"
        }
        "WRONGTYPE" => {
            " (the key holds data of another type, it is no lock: choose another name or key_prefix)"
        }
        "NOPERM" => {
            " (locks need EVALSHA, SCRIPT LOAD, GET, SET, PTTL, PEXPIRE and DEL on their keys, or other rights with scripts off: docs/security.md)"
        }
        "CLUSTERDOWN" => " (nobody has the key's hash slot now: docs/cluster.md)",
        "NOAUTH" => " (put the password into the node's URL)",
        "READONLY" => " (the server is a replica)",
        "MOVED" | "ASK" | "CROSSSLOT" => {
            " (this is a Redis Cluster: use redis+cluster://host:port)"
        }
        "FENCE" => FENCE_HINT,
        _ => "",
    };
    let answered = "the server answered ";
    let fault = match code {
        "WRONGTYPE" => Fault::unsupported(answered),
        "MOVED" | "ASK" | "CROSSSLOT" => Fault::invalid(answered),
        _ => Fault::new(answered),
    };
    fault.saying(text, hint)
}

/// What a server said, as text: bytes are not written as numbers, in which nobody would find a password.
pub(super) fn words(value: &Value) -> String {
    let all = |values: &[Value]| values.iter().map(words).collect::<Vec<_>>().join(" ");
    match value {
        Value::Nil => "nothing".to_owned(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Array(values) | Value::Set(values) => format!("({})", all(values)),
        Value::Push { data, .. } => format!("({})", all(data)),
        Value::Map(pairs) => {
            let pair = |(key, value): &(Value, Value)| format!("{} {}", words(key), words(value));
            format!("({})", pairs.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
        Value::Attribute { data, .. } => words(data),
        Value::ServerError(error) => {
            format!("{} {}", error.code(), error.details().unwrap_or_default())
        }
        Value::Double(number) => number.to_string(),
        Value::Boolean(yes) => yes.to_string(),
        _ => "a value of another kind".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn error_code_tells_permanent_faults() {
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
}
