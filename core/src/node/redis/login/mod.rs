//! Opens the connection to a server, logs in, and selects the protocol.
//!
//! A server, or a proxy in front of it, may not support `HELLO` or other commands. That is detected by an error without
//! a code, or by the end of the connection. The latter may have another cause, so
//! [`connection::task`](crate::node::redis::connection::task) checks it again later.

mod batch_connection;

use redis::{ServerError, Value, cmd};

use crate::node::Fault;
use crate::node::redis::commands::capabilities::{Capabilities, Feature};
use crate::node::redis::commands::errors::{
    has_code, is_full, is_unknown, refusal, text_of, words,
};
use crate::node::redis::io::endpoint::Endpoint;

pub(crate) use batch_connection::BatchConnection;

/// Connects and logs in.
///
/// Some proxies close the connection at an unsupported command. If that happens at `HELLO` twice, it is not used,
/// unless there is to be only one connection, `once`.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    supported: &mut Capabilities,
    once: bool,
) -> Result<(BatchConnection, Option<Hello>), Fault> {
    let mut why = None;
    for _ in 0..2 {
        if !supported.has(Feature::Hello) {
            break;
        }
        let mut connection = BatchConnection::open(endpoint).await?;
        // Sent first and alone, because it determines the protocol of later replies.
        match log_in(&mut connection, endpoint, supported).await {
            Ok(hello) => return Ok((connection, hello)),
            Err(fault) if fault.is_hung_up() && !once => why = Some(fault),
            Err(fault) => return Err(hinted(fault, endpoint)),
        }
    }
    let mut connection = BatchConnection::open(endpoint).await?;
    log_in_without_hello(&mut connection, endpoint).await.map_err(|fault| {
        let fault = if fault.is_hung_up() { why.unwrap_or(fault) } else { fault };
        hinted(fault, endpoint)
    })?;
    // Only the end of a connection was the reason, unless an earlier call found another one.
    supported.doubtful |= supported.has(Feature::Hello);
    supported.set(Feature::Hello, false);
    Ok((connection, None))
}

/// Adds a hint to the error of a login: a server that expects TLS may close a plain connection without a reply.
fn hinted(fault: Fault, endpoint: &Endpoint) -> Fault {
    if !fault.is_hung_up() || endpoint.is_tls() {
        return fault;
    }
    fault.hinting(
        "if this is a TLS port, write rediss:// instead of redis://, for servers of sentinels without TLS with \
         sentinel_tls=false",
    )
}

/// What a server reports about itself in its reply to `HELLO`. Servers and proxies may omit each part.
#[derive(Default)]
pub(crate) struct Hello {
    /// The ID of this connection. The next connection uses it to close this one.
    pub(crate) id: Option<i64>,
    /// `master`, or another role.
    pub(crate) role: Option<String>,
    /// `standalone`, `cluster` or `sentinel`.
    mode: Option<String>,
}

impl Hello {
    fn from_fields(fields: &[(Value, Value)]) -> Self {
        let field = |wanted| fields.iter().find(|(name, _)| words(name) == wanted);
        let text = |wanted| field(wanted).map(|(_, value)| words(value));
        let id = match field("id") {
            Some((_, Value::Int(id))) => Some(*id),
            _ => None,
        };
        Self { id, role: text("role"), mode: text("mode") }
    }

    /// Returns the role of a server that is neither a sentinel nor part of a cluster.
    pub(crate) fn role_alone(&self) -> Option<&str> {
        self.role.as_deref().filter(|_| self.mode.as_deref() == Some("standalone"))
    }
}

/// Logs in. Returns the reply to `HELLO`. With RESP2, as the URL or a server without the command `HELLO` requires,
/// there is none, and no notifications.
pub(crate) async fn log_in(
    connection: &mut BatchConnection,
    endpoint: &Endpoint,
    supported: &mut Capabilities,
) -> Result<Option<Hello>, Fault> {
    if endpoint.parameters.protocol == Some(2) {
        return log_in_without_hello(connection, endpoint).await.map(|()| None);
    }
    let mut refusal = match hello(connection, endpoint, true).await? {
        Ok(hello) => return Ok(Some(hello)),
        Err(error) => error,
    };
    if is_full(&refusal) {
        return Err(no_room());
    }
    // An error code refers to this login, so a wrong password is not sent twice. Other errors may mean that a server
    // before Redis 6, or a proxy, does not support the command, or not before `AUTH`.
    let with_password = endpoint.password.is_some();
    let before_auth = refusal.code() == "NOAUTH" && with_password;
    let refused = if with_password { login_refused } else { refused };
    if has_code(&refusal) && refusal.code() != "NOPROTO" && !before_auth {
        return Err(refused(&refusal));
    }
    let logged_in = log_in_without_hello(connection, endpoint).await;
    // The first refusal explains more than the end of the connection after it.
    logged_in.map_err(|fault| if fault.is_hung_up() { refused(&refusal) } else { fault })?;
    if before_auth {
        match hello(connection, endpoint, false).await? {
            Ok(hello) => return Ok(Some(hello)),
            Err(error) => refusal = error,
        }
    }
    supported.set(Feature::Hello, false);
    supported.doubtful |= refusal.code() != "NOPROTO" && !is_unknown(&refusal);
    Ok(None)
}

/// Requests RESP3, with or without the login.
async fn hello(
    connection: &mut BatchConnection,
    endpoint: &Endpoint,
    login: bool,
) -> Result<Result<Hello, ServerError>, Fault> {
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(password) = endpoint.password.as_ref().filter(|_| login) {
        // `HELLO` requires a user name. A password alone logs in as `default`.
        hello.arg("AUTH").arg(endpoint.username.as_deref().unwrap_or("default")).arg(password);
    }
    match connection.request(&[hello]).await?.remove(0) {
        Value::Map(fields) => Ok(Ok(Hello::from_fields(&fields))),
        // RESP3 requested, but the reply has the form of RESP2. Pushes are tried, and the rest is unknown.
        Value::Array(_) => Ok(Ok(Hello::default())),
        Value::ServerError(error) => Ok(Err(error)),
        other if login && endpoint.password.is_some() => Err(login_replied(&other)),
        other => Err(no_redis(&other)),
    }
}

/// Logs in with RESP2. Without a password, any reply shows that the server works, unless it has no room for the
/// connection. The ID of the connection is requested later.
async fn log_in_without_hello(
    connection: &mut BatchConnection,
    endpoint: &Endpoint,
) -> Result<(), Fault> {
    let mut login = cmd(if endpoint.password.is_some() { "AUTH" } else { "PING" });
    login.arg(endpoint.username.as_deref()).arg(endpoint.password.as_deref());
    match connection.request(&[login]).await?.remove(0) {
        Value::ServerError(error) if is_full(&error) => Err(no_room()),
        _ if endpoint.password.is_none() => Ok(()),
        Value::Okay => Ok(()),
        Value::ServerError(error) => Err(login_refused(&error)),
        other => Err(login_replied(&other)),
    }
}

/// What the errors of Redis mean that refuse a login. The first three have no separate code.
const REFUSALS: [(&str, &str); 7] = [
    ("ERR invalid password", "the password is wrong"),
    ("ERR Client sent AUTH, but no password is set", NO_PASSWORD),
    ("ERR AUTH <password> called without any password configured", NO_PASSWORD),
    ("WRONGPASS", "the user or the password is wrong, or the user is disabled"),
    ("NOAUTH", "the login is missing"),
    ("NOPERM", "the user may not log in here"),
    ("DENIED", "the server is in protected mode"),
];
const NO_PASSWORD: &str =
    "the server has no password; remove it from the node's URL, or add a user";
/// Further codes that are shown. Any other word may be a part of the password.
const CODES: [&str; 6] = ["BUSY", "CLUSTERDOWN", "ERR", "LOADING", "MASTERDOWN", "NOPROTO"];

/// The error of a server that refuses a login. It does not show the server's text, which may repeat a part of the
/// password, or the password in another spelling.
pub(crate) fn login_refused(error: &ServerError) -> Fault {
    let text = text_of(error);
    let known = REFUSALS.iter().find(|(words, _)| text.starts_with(words));
    if let Some((words, meaning)) = known {
        let code = words.split(' ').next().unwrap_or_default();
        return Fault::new(format!("the server replied {code} ({meaning})")).refused();
    }
    let code = CODES.into_iter().find(|code| *code == error.code()).unwrap_or("an error");
    Fault::new(format!(
        "the server replied to the login with {code}. Its text is not shown, because it may repeat the password"
    ))
}

/// The error of a server that replies to a login with something else. It does not show the reply for the same reason.
fn login_replied(value: &Value) -> Fault {
    let kind = match value {
        Value::BulkString(_) | Value::VerbatimString { .. } => "a text",
        Value::Int(_) | Value::Double(_) => "a number",
        _ => "another value",
    };
    Fault::new(format!(
        "the server replied to the login with {kind}. Check that it is a Redis server"
    ))
}

/// The error of a server that has no room for another connection.
fn no_room() -> Fault {
    Fault::new("the server replied ERR max number of clients reached")
}

/// The error of a server that refuses a required step.
pub(crate) fn refused(error: &ServerError) -> Fault {
    refusal(&text_of(error))
}

/// The error for a reply of another protocol. It shows the text, by which an HTTP server can be recognized.
pub(crate) fn no_redis(value: &Value) -> Fault {
    let said = words(value);
    Fault::new("the server replied to the greeting with ")
        .saying(&said, ". Check that it is a Redis server")
}

#[cfg(test)]
mod tests {
    use crate::node::Remedy;
    use crate::node::redis::login::*;

    #[test]
    fn only_known_errors_are_refusals_of_the_login() {
        for (reply, remedy) in [
            ("-WRONGPASS invalid username-password pair or user is disabled.", Remedy::Refused),
            ("-NOAUTH Authentication required.", Remedy::Refused),
            ("-ERR invalid password", Remedy::Refused),
            ("-ERR Client sent AUTH, but no password is set", Remedy::Refused),
            (
                "-ERR AUTH <password> called without any password configured for the default user.",
                Remedy::Refused,
            ),
            ("-ERR the password service is not reachable", Remedy::Retry),
            ("-ERR upstream failure", Remedy::Retry),
            ("-LOADING Redis is loading the dataset in memory", Remedy::Retry),
        ] {
            let value = redis::parse_redis_value(format!("{reply}\r\n").as_bytes());
            let Ok(Value::ServerError(error)) = value else { panic!("{reply}: {value:?}") };
            assert_eq!(login_refused(&error).remedy(), remedy, "{reply}");
        }
    }
}
