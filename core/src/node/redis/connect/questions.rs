//! Asks a server questions over a separate connection, for a diagnosis.
//!
//! This connection needs none of the features and rights of locks, so it also reaches servers that cannot be used for
//! them.

use std::sync::Arc;
use std::time::Duration;

use redis::{Value, cmd};

use crate::clock::{Clock, SystemClock};
use crate::node::Fault;
use crate::node::redis::commands::capabilities::Capabilities;
use crate::node::redis::commands::errors::{text_of, words};
use crate::node::redis::io::step::Step;
use crate::node::redis::login::connect;
use crate::node::redis::sentinel::Resolver;
use crate::node::redis::url::route::Route;

/// The replies of one server to the questions of a diagnosis.
#[derive(Clone, Debug)]
pub struct ServerReplies {
    /// Its host and port, or its socket.
    pub address: String,
    /// Whether the connection uses RESP3, which notifications need.
    pub resp3: bool,
    /// When they arrived, by the wall clock of this host, in µs.
    pub arrived: u64,
    /// In the order of the commands. A reply is its values as text, or the text of an error.
    pub replies: Vec<Result<Vec<String>, String>>,
}

/// Connects to the server, and sends these commands at once.
pub(crate) async fn query_server(
    route: Arc<Route>,
    commands: Arc<[Vec<String>]>,
) -> Result<ServerReplies, Fault> {
    let step = Step::default();
    let replies = step.within(route.connect_timeout(), ask_server(&route, &commands));
    replies.await.map_err(|fault| route.redact_fault(fault))
}

async fn ask_server(route: &Route, commands: &[Vec<String>]) -> Result<ServerReplies, Fault> {
    let found = Resolver::new(route, Duration::ZERO).find().await?;
    let granted = found.endpoint.granted().await?;
    let endpoint = match &granted {
        Some(granted) => found.endpoint.with_login(&granted.credentials),
        None => found.endpoint,
    };
    let (mut connection, hello) = connect(&endpoint, &mut Capabilities::default(), false).await?;
    let commands = commands.iter().map(|command| {
        let (name, arguments) = command.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
        cmd(name).arg(arguments).clone()
    });
    let replies = connection.request(&commands.collect::<Vec<_>>()).await?;
    let text = |value: Value| match value {
        Value::ServerError(error) => Err(route.redact(&text_of(&error))),
        other => Ok(values(&other)),
    };
    Ok(ServerReplies {
        address: endpoint.authority(),
        resp3: hello.is_some(),
        arrived: SystemClock.wall_micros(),
        replies: replies.into_iter().map(text).collect(),
    })
}

/// The values of a reply, one after the other. RESP2 and RESP3 then have the same form.
fn values(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) | Value::Set(values) => values.iter().flat_map(self::values).collect(),
        Value::Map(pairs) => {
            pairs.iter().flat_map(|(key, value)| [key, value]).flat_map(self::values).collect()
        }
        other => vec![words(other)],
    }
}
