//! Checks the role of a server at connect: only a primary takes votes.

use redis::Value;

use super::login::{no_redis, refused};
use crate::node::Fault;
use crate::node::redis::commands::errors::words;

/// The role of a server that votes.
const MASTER: &str = "master";

/// Returns an error for a server with another role. It may accept writes nevertheless, as an active replica of some
/// servers does, and would vote in addition to its primary.
pub(super) fn is_master(role: &str) -> Result<(), Fault> {
    if role == MASTER {
        return Ok(());
    }
    let text = "the server is a replica (its role is ";
    Err(Fault::new(text).of_replica().saying(role, "), which takes no votes"))
}

/// Returns an error unless the reply to `ROLE` is that of a primary.
pub(super) fn is_primary(role: &Value) -> Result<(), Fault> {
    match role {
        Value::Array(parts) if parts.first().is_some_and(|role| words(role) == MASTER) => Ok(()),
        Value::Array(parts) => {
            let role = parts.first().map(words).unwrap_or_default();
            let text = "the sentinels report it as the primary, but it is a replica (its role is ";
            Err(Fault::new(text).of_replica().saying(&role, ")"))
        }
        Value::ServerError(error) => Err(refused(error)),
        other => Err(no_redis(other)),
    }
}
