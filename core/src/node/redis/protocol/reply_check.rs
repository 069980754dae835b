//! Matches replies to commands, and classifies them.
//!
//! Pure. If a reply does not fit its command, no reply of the connection can be trusted any more. A proxy that loses
//! one reply shifts all later ones, and a round could count another round's grant.

use std::sync::Arc;

use redis::Value;

use super::super::native::Delete;
use super::super::reply;
use super::command::{Command, Expects, InFlight, Purpose};

/// Whether the value can be the reply to this command, or the part of it that is due.
pub(super) fn fits(in_flight: &InFlight, value: &Value) -> bool {
    match &in_flight.command.expects {
        // The first of two replies. That of `CLIENT CACHING` has the same form as that of `SET`.
        _ if in_flight.has_two_answers() => reply::sets(value),
        Expects::Anything => true,
        Expects::Echo(echo) => reply::echoes(value, echo),
        Expects::Token(token) => reply::says_ours(value, token),
        Expects::Owner => reply::owns(value),
        Expects::Durable(wanted) => wanted.fits(value),
        Expects::Parts(parts) => in_flight.fits_part(parts, value),
        Expects::Time => reply::time(value).is_some() || matches!(value, Value::ServerError(_)),
    }
}

/// Whether the reply may be a grant. All other replies are returned immediately, regardless of replicas and disks.
pub(super) fn may_grant(in_flight: &InFlight, value: &Value) -> bool {
    match value {
        Value::Array(parts) => parts.first() == Some(&Value::Int(1)),
        Value::BulkString(_) if matches!(in_flight.command.expects, Expects::Token(_)) => true,
        // The owner, if the preceding `SET` succeeded.
        _ => in_flight.set == Some(true),
    }
}

/// Returns the follow-up command for the same caller, if any.
pub(super) fn leads_to(in_flight: &InFlight, value: &Value) -> Option<Command> {
    match &in_flight.command.purpose {
        Purpose::Force { keys, then, .. } => then(keys, value),
        Purpose::Keep(longer) if may_grant(in_flight, value) => longer.as_deref().cloned(),
        _ => None,
    }
}

/// Whether the command would extend a key whose delete is already under way. Its follow-up, or its repetition after the
/// scripts were lost, would arrive after that delete.
pub(super) fn given_back<'a>(
    in_flight: &InFlight,
    value: &Value,
    mut behind: impl Iterator<Item = &'a Arc<str>>,
) -> bool {
    let Purpose::Keep(then) = &in_flight.command.purpose else { return false };
    let ours = match &in_flight.command.expects {
        Expects::Echo(token) | Expects::Token(token) => token,
        Expects::Parts(parts) => parts.echo(),
        _ => return false,
    };
    (then.is_some() || lost_scripts(in_flight, value)) && behind.any(|token| **token == *ours)
}

/// The error for an extend of a released lease.
pub(super) const GIVEN_BACK: &str = "the lease was released in the meantime";

/// Replaces the owner that was read, unless the preceding `SET` succeeded. Otherwise the script must
/// determine the result.
///
/// If the `SET` was refused and the key has our token, the grant would result from an earlier command.
pub(super) fn believed(command: &Command, set: Option<bool>, value: Value) -> Value {
    let set = !matches!(command.expects, Expects::Owner) || set == Some(true);
    if set { value } else { Value::Nil }
}

/// Whether the user has lost the right to the server's compare-and-delete. The delete is then repeated by a script, if
/// scripts are allowed.
pub(super) fn denied_delete(in_flight: &InFlight, value: &Value, scripts: Option<bool>) -> bool {
    let Expects::Parts(parts) = &in_flight.command.expects else { return false };
    let Value::ServerError(error) = value else { return false };
    let told = error.details().unwrap_or_default();
    let named = |by: Delete| told.contains(&format!("'{}'", by.name().to_lowercase()));
    let denied = error.code() == "NOPERM" && Delete::ALL.into_iter().any(named);
    denied && scripts.is_none() && parts.is_delete() && !in_flight.again
}

/// Whether the server has lost the scripts and the command must be repeated.
pub(super) fn lost_scripts(in_flight: &InFlight, value: &Value) -> bool {
    // Deletes are always repeated, even if the caller no longer waits.
    let wanted = matches!(in_flight.command.purpose, Purpose::Delete { .. })
        || !in_flight.answer.is_closed();
    // Only once. A server that loses the scripts again immediately has another problem.
    is_no_script(value) && wanted && !in_flight.again
}

/// Whether the server does not know the script.
pub(super) fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}
