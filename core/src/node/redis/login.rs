//! The first words of a connection: who we are, and which protocol the rest is answered in.

use redis::{ServerError, Value, cmd};

use super::endpoint::Endpoint;
use super::refusal::{has_code, refusal, words};
use super::talk::Talk;
use crate::node::Fault;

/// With RESP3, our own id if the server says it; servers that do not support `HELLO` are spoken to in RESP2, without
/// notifications.
pub(super) async fn log_in(
    talk: &mut Talk,
    endpoint: &Endpoint,
) -> Result<Option<Option<i64>>, Fault> {
    if endpoint.parameters.protocol == Some(2) {
        return authenticate(talk, endpoint).await.map(|()| None);
    }
    let refusal = match hello(talk, endpoint, true).await? {
        Ok(id) => return Ok(Some(id)),
        Err(error) => error,
    };
    // A code of its own is about us: a wrong password must not be sent twice. All other errors may mean that a server before
    // Redis 6, or a proxy, does not support the command, or not before `AUTH`.
    let before_auth = refusal.code() == "NOAUTH" && endpoint.password.is_some();
    if has_code(&refusal) && refusal.code() != "NOPROTO" && !before_auth {
        return Err(refused(&refusal));
    }
    let logged_in = log_in_without_hello(talk, endpoint).await;
    // The first refusal says more than the end of the connection that followed it.
    logged_in.map_err(|fault| if talk.hung_up { refused(&refusal) } else { fault })?;
    if before_auth && let Ok(id) = hello(talk, endpoint, false).await? {
        return Ok(Some(id));
    }
    Ok(None)
}

/// Asks for RESP3, with the login or without.
async fn hello(
    talk: &mut Talk,
    endpoint: &Endpoint,
    login: bool,
) -> Result<Result<Option<i64>, ServerError>, Fault> {
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(password) = endpoint.password.as_ref().filter(|_| login) {
        // HELLO wants a name: `default` is whom a password alone logs in.
        hello.arg("AUTH").arg(endpoint.username.as_deref().unwrap_or("default")).arg(password);
    }
    match talk.ask(&[hello]).await?.remove(0) {
        Value::Map(words) => Ok(Ok(own_id(&words))),
        // RESP3 in RESP2's form: pushes are tried, our id is not known.
        Value::Array(_) => Ok(Ok(None)),
        Value::ServerError(error) => Ok(Err(error)),
        other => Err(no_redis(&other)),
    }
}

/// Logs in over a connection on which `HELLO` is not supported. A reply of any kind shows that the server is there.
pub(super) async fn log_in_without_hello(
    talk: &mut Talk,
    endpoint: &Endpoint,
) -> Result<(), Fault> {
    if endpoint.password.is_some() {
        return authenticate(talk, endpoint).await;
    }
    talk.ask(&[cmd("PING")]).await.map(drop)
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
