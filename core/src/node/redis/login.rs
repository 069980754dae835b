//! Performs the login of a connection, and selects the protocol.

use redis::{ServerError, Value, cmd};

use super::endpoint::Endpoint;
use super::fallback::Without;
use super::refusal::{has_code, is_full, is_unknown, refusal, text_of, words};
use super::talk::Talk;
use crate::node::Fault;

/// Logs in. With RESP3 it returns the connection's ID, if the server reports it. Without `HELLO` it uses RESP2, without
/// notifications, and records that.
pub(super) async fn log_in(
    talk: &mut Talk,
    endpoint: &Endpoint,
    without: &mut Without,
) -> Result<Option<Option<i64>>, Fault> {
    if endpoint.parameters.protocol == Some(2) {
        return authenticate(talk, endpoint).await.map(|()| None);
    }
    let mut refusal = match hello(talk, endpoint, true).await? {
        Ok(id) => return Ok(Some(id)),
        Err(error) => error,
    };
    if is_full(&refusal) {
        return Err(refused(&refusal));
    }
    // An error code refers to this login, so a wrong password is not sent twice. Other errors may mean that a server
    // before Redis 6, or a proxy, does not support the command, or not before `AUTH`.
    let before_auth = refusal.code() == "NOAUTH" && endpoint.password.is_some();
    if has_code(&refusal) && refusal.code() != "NOPROTO" && !before_auth {
        return Err(refused(&refusal));
    }
    let logged_in = log_in_without_hello(talk, endpoint).await;
    // The first refusal explains more than the end of the connection after it.
    logged_in.map_err(|fault| if talk.hung_up { refused(&refusal) } else { fault })?;
    if before_auth {
        match hello(talk, endpoint, false).await? {
            Ok(id) => return Ok(Some(id)),
            Err(error) => refusal = error,
        }
    }
    without.hello = true;
    without.doubtful |= refusal.code() != "NOPROTO" && !is_unknown(&refusal);
    Ok(None)
}

/// Requests RESP3, with or without the login.
async fn hello(
    talk: &mut Talk,
    endpoint: &Endpoint,
    login: bool,
) -> Result<Result<Option<i64>, ServerError>, Fault> {
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(password) = endpoint.password.as_ref().filter(|_| login) {
        // `HELLO` requires a user name. A password alone logs in as `default`.
        hello.arg("AUTH").arg(endpoint.username.as_deref().unwrap_or("default")).arg(password);
    }
    match talk.ask(&[hello]).await?.remove(0) {
        Value::Map(words) => Ok(Ok(own_id(&words))),
        // RESP3 requested, but the reply has the form of RESP2. Pushes are tried, and the ID is unknown.
        Value::Array(_) => Ok(Ok(None)),
        Value::ServerError(error) => Ok(Err(error)),
        other => Err(no_redis(&other)),
    }
}

/// Logs in over a connection without support for `HELLO`. Any reply shows that the server works, unless the server has
/// no room for the connection.
pub(super) async fn log_in_without_hello(
    talk: &mut Talk,
    endpoint: &Endpoint,
) -> Result<(), Fault> {
    if endpoint.password.is_some() {
        return authenticate(talk, endpoint).await;
    }
    match talk.ask(&[cmd("PING")]).await?.remove(0) {
        Value::ServerError(error) if is_full(&error) => Err(refused(&error)),
        _ => Ok(()),
    }
}

/// Logs in with RESP2. The ID is requested later.
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
            // Before Redis 6, a wrong or superfluous password has no separate error code.
            let about_us = error.details().unwrap_or_default().contains("password");
            Err(if about_us { fault.refused() } else { fault })
        }
        other => Err(no_redis(&other)),
    }
}

/// Returns the server's ID of this connection. The next connection uses it to close this one.
fn own_id(words: &[(Value, Value)]) -> Option<i64> {
    words.iter().find_map(|(word, value)| match (word, value) {
        (Value::BulkString(word), Value::Int(id)) if word == b"id" => Some(*id),
        (Value::SimpleString(word), Value::Int(id)) if word == "id" => Some(*id),
        _ => None,
    })
}

/// The error of a server that refuses a required step.
pub(super) fn refused(error: &ServerError) -> Fault {
    refusal(&text_of(error))
}

/// The error for a reply of another protocol. It shows the text, by which an HTTP server can be recognized.
pub(super) fn no_redis(value: &Value) -> Fault {
    let said = words(value);
    Fault::new("the greeting was answered by ").saying(&said, ": is it a Redis server?")
}
