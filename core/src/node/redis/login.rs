//! The first words of a connection: who we are, and which protocol the rest is answered in.

use redis::{ServerError, Value, cmd};

use super::endpoint::Endpoint;
use super::refusal::{refusal, words};
use super::talk::Talk;
use crate::node::Fault;

/// With RESP3, our own id if the server says it; servers that do not know it are spoken to in RESP2, without pushes.
pub(super) async fn log_in(
    talk: &mut Talk,
    endpoint: &Endpoint,
) -> Result<Option<Option<i64>>, Fault> {
    if endpoint.parameters.protocol == Some(2) {
        return authenticate(talk, endpoint).await.map(|()| None);
    }
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(password) = &endpoint.password {
        // HELLO wants a name: `default` is whom a password alone logs in.
        hello.arg("AUTH").arg(endpoint.username.as_deref().unwrap_or("default")).arg(password);
    }
    match talk.ask(&[hello]).await?.remove(0) {
        Value::Map(words) => return Ok(Some(own_id(&words))),
        // RESP3 in RESP2's form: pushes are tried, our id is not known.
        Value::Array(_) => return Ok(Some(None)),
        Value::ServerError(error) => {
            // Before Redis 6 there is no HELLO. Any other refusal is about us: a wrong password must not be
            // sent twice.
            let unknown = error.details().unwrap_or_default().contains("unknown command");
            if !unknown && error.code() != "NOPROTO" {
                return Err(refused(&error));
            }
        }
        other => return Err(no_redis(&other)),
    }
    authenticate(talk, endpoint).await.map(|()| None)
}

/// In RESP2, where our id is asked for later.
async fn authenticate(talk: &mut Talk, endpoint: &Endpoint) -> Result<(), Fault> {
    let Some(password) = &endpoint.password else { return Ok(()) };
    let mut auth = cmd("AUTH");
    if let Some(username) = &endpoint.username {
        auth.arg(username);
    }
    auth.arg(password);
    match talk.ask(&[auth]).await?.remove(0) {
        Value::Okay => Ok(()),
        Value::ServerError(error) => {
            let fault = refused(&error);
            // Before Redis 6 a wrong password has no error code of its own, and neither has one that is not wanted.
            let about_us = error.details().unwrap_or_default().contains("password");
            Err(if about_us { fault.refused() } else { fault })
        }
        other => Err(no_redis(&other)),
    }
}

/// The number by which the server knows this connection: its successor has it killed by that.
fn own_id(words: &[(Value, Value)]) -> Option<i64> {
    words.iter().find_map(|(word, value)| match (word, value) {
        (Value::BulkString(word), Value::Int(id)) if word == b"id" => Some(*id),
        (Value::SimpleString(word), Value::Int(id)) if word == "id" => Some(*id),
        _ => None,
    })
}

/// A server's refusal of a step that a connection needs.
pub(super) fn refused(error: &ServerError) -> Fault {
    refusal(&format!("{} {}", error.code(), error.details().unwrap_or_default()))
}

/// What greets in another way is shown: an HTTP server says so itself.
pub(super) fn no_redis(value: &Value) -> Fault {
    let said = words(value);
    Fault::new("the greeting was answered by ").saying(&said, ": is it a Redis server?")
}
