//! Checks the kind and the role of a server at connect: only a primary takes votes.

use redis::{Value, cmd};

use crate::node::Fault;
use crate::node::redis::commands::errors::words;
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::redis::login::BatchConnection;
use crate::node::redis::login::{no_redis, refused};

/// The role of a server that votes.
const MASTER: &str = "master";

/// Returns an error for a server with another role. It may accept writes nevertheless, as an active replica of some
/// servers does, and would vote in addition to its primary.
pub(super) fn is_master(role: &str) -> Result<(), Fault> {
    if role == MASTER {
        return Ok(());
    }
    let text = "the server is a replica (its role is ";
    Err(Fault::new(text).saying(role, "), which takes no votes"))
}

/// Returns an error unless the reply to `ROLE` is that of a primary.
pub(super) fn is_primary(role: &Value) -> Result<(), Fault> {
    match role {
        Value::Array(parts) if parts.first().is_some_and(|role| words(role) == MASTER) => Ok(()),
        Value::Array(parts) => {
            let role = parts.first().map(words).unwrap_or_default();
            let text = "the sentinels report it as the primary, but it is a replica (its role is ";
            Err(Fault::new(text).saying(&role, ")"))
        }
        Value::ServerError(error) => Err(refused(error)),
        other => Err(no_redis(other)),
    }
}

/// Returns an error if the server is of another kind than the URL says. Its `mode` is only what it calls itself, and
/// that of a proxy is the mode of the servers behind it. A server of a cluster reports the slots of the cluster, and
/// redirects commands. A `redis+cluster://` URL asks for the slots in any case.
pub(super) async fn check_kind(
    connection: &mut BatchConnection,
    mode: Option<&str>,
    endpoint: &Endpoint,
    clustered: bool,
) -> Result<(), Fault> {
    let (what, url) = match mode {
        Some("sentinel") => {
            ("a Redis Sentinel, which stores no locks", "+sentinel://host:port/service")
        }
        // It would refuse the other keys, now or after a migration.
        Some("cluster") if !clustered && has_slots(connection).await? => {
            ("a server of a Redis Cluster and has only some of the keys", "+cluster://host:port")
        }
        _ => return Ok(()),
    };
    let scheme = if endpoint.is_tls() { "rediss" } else { "redis" };
    Err(Fault::invalid(format!("it is {what}. Use {scheme}{url}")))
}

/// Whether the server reports the slots of a cluster, of which there may be none yet.
async fn has_slots(connection: &mut BatchConnection) -> Result<bool, Fault> {
    let slots = cmd("CLUSTER").arg("SLOTS").clone();
    let reply = connection.ask(&[slots]).await?.remove(0);
    Ok(matches!(reply, Value::Array(_)))
}
