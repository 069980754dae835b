//! Whether an answer is one to this command, and what it says.
//!
//! Pure. Where an answer fits no command, none of the connection's answers is to be trusted any more: a proxy
//! that lost one shifts all later ones, and somebody's grant would be counted for another's round.

use std::sync::Arc;

use redis::Value;

use super::in_flight::{Command, Expects, InFlight, Purpose};
use super::native::Delete;
use super::reply;

/// Whether it can be the answer; of two, the one that is due.
pub(super) fn fits(in_flight: &InFlight, value: &Value) -> bool {
    match &in_flight.command.expects {
        // The first of two; that of `CLIENT CACHING`, too, is one that `SET` can have.
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

/// Whether it may be a grant. What is none is told at once, whatever replicas and disks have.
pub(super) fn may_grant(in_flight: &InFlight, value: &Value) -> bool {
    match value {
        Value::Array(parts) => parts.first() == Some(&Value::Int(1)),
        Value::BulkString(_) if matches!(in_flight.command.expects, Expects::Token(_)) => true,
        // The owner, where the `SET` before it was carried out.
        _ => in_flight.set == Some(true),
    }
}

/// What is asked next, for whoever asked this.
pub(super) fn leads_to(in_flight: &InFlight, value: &Value) -> Option<Command> {
    match &in_flight.command.purpose {
        Purpose::Force { keys, then, .. } => then(keys, value),
        Purpose::Keep(longer) if may_grant(in_flight, value) => longer.as_deref().cloned(),
        _ => None,
    }
}

/// Whether it is to have our keys live longer, and what gives them back is on its way behind it: what is asked now, because
/// the answer leads to it or as the scripts were lost, would come behind that.
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

/// Said to who asked for more of a lease that was given back.
pub(super) const GIVEN_BACK: &str = "the lease was given back meanwhile";

/// A `GET` says whose a key is only for whoever set it just before: the other answers are the script's to give.
///
/// A `SET` that was refused behind a read that shows our token would be a grant by what an earlier command did.
pub(super) fn believed(command: &Command, set: Option<bool>, value: Value) -> Value {
    let set = !matches!(command.expects, Expects::Owner) || set == Some(true);
    if set { value } else { Value::Nil }
}

/// The user may not run the server's own compare-and-delete any more: by script, if one may be run, it is done all the
/// same.
pub(super) fn denied_delete(in_flight: &InFlight, value: &Value, scripts: Option<bool>) -> bool {
    let Expects::Parts(parts) = &in_flight.command.expects else { return false };
    let Value::ServerError(error) = value else { return false };
    let told = error.details().unwrap_or_default();
    let named = |by: Delete| told.contains(&format!("'{}'", by.name().to_lowercase()));
    let denied = error.code() == "NOPERM" && Delete::ALL.into_iter().any(named);
    denied && scripts.is_none() && parts.is_delete() && !in_flight.again
}

/// The server has lost the scripts, and somebody still wants the answer.
pub(super) fn lost_scripts(in_flight: &InFlight, value: &Value) -> bool {
    // Deletes are always wanted, whoever has stopped listening.
    let wanted = matches!(in_flight.command.purpose, Purpose::Delete { .. })
        || !in_flight.answer.is_closed();
    // Once: a server that loses them again at once has another fault.
    is_no_script(value) && wanted && !in_flight.again
}

/// The server does not know the script.
pub(super) fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}
