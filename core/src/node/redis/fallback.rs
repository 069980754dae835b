//! Connects to a server, or through a proxy, that does not support every command.
//!
//! An unsupported command is detected by an error without a code, or by the end of the connection. The latter may have
//! another cause, so [`super::features`] checks it again later.

use super::batches::{BatchConnection, cannot_connect};
use super::endpoint::Endpoint;
use super::login::{Protocol, log_in, log_in_without_hello};
use super::stream::Stream;
use crate::node::Fault;

/// The features that a connection does not use, because the server, or a proxy in front of it, does not support them.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be missing")]
pub(super) struct Without {
    /// `HELLO`. The connection uses RESP2.
    pub(super) hello: bool,
    /// All features that locks do not need: connection names, `INFO`, `SCRIPT`, `CLIENT TRACKING`.
    pub(super) extras: bool,
    /// `CLIENT TRACKING`. Without it the server sends no notifications.
    pub(super) tracking: bool,
    /// `SCRIPT LOAD` and `EVALSHA`. Scripts are sent in full.
    pub(super) digests: bool,
    /// Whether the server may support one of them after all, because it did not report an unknown command.
    pub(super) doubtful: bool,
}

impl Without {
    /// Whether a feature is used that `other` does not use.
    pub(super) fn improves(self, other: Self) -> bool {
        (other.hello && !self.hello)
            || (other.extras && !self.extras)
            || (other.tracking && !self.tracking)
            || (other.digests && !self.digests)
    }

    /// Returns the missing commands and the consequences, or `None` if nothing is missing.
    pub(super) fn described(self) -> Option<(String, String)> {
        let missing = [
            (self.hello, "HELLO", None),
            (self.extras, "CLIENT SETNAME, INFO", Some("the server's age is unknown")),
            (
                self.tracking,
                "CLIENT TRACKING",
                Some("waiting callers poll, and a loss is only detected at the next renewal"),
            ),
            (self.digests, "SCRIPT LOAD", Some("scripts are sent in full by EVAL")),
        ];
        let missing: Vec<_> = missing.into_iter().filter(|(missing, ..)| *missing).collect();
        let commands: Vec<_> = missing.iter().map(|(_, command, _)| *command).collect();
        let effects: Vec<_> = missing.iter().filter_map(|(.., effect)| *effect).collect();
        (!missing.is_empty()).then(|| (commands.join(", "), effects.join(", ")))
    }
}

/// Connects and logs in. With RESP3 it also returns the connection's ID, if the server reports it.
///
/// Some proxies close the connection at an unsupported command. If that happens at `HELLO` twice, it is not used.
pub(super) async fn connect(
    endpoint: &Endpoint,
    without: &mut Without,
) -> Result<(BatchConnection, Option<Option<i64>>), Fault> {
    let mut why = None;
    for _ in 0..2 {
        if without.hello {
            break;
        }
        let mut connection = open_stream(endpoint).await?;
        // Sent first and alone, because it determines the protocol of later replies.
        match log_in(&mut connection, endpoint).await {
            Ok(Protocol::Resp3(id)) => return Ok((connection, Some(id))),
            Ok(Protocol::Resp2) => return Ok((connection, None)),
            Ok(Protocol::WithoutHello { doubtful }) => {
                (without.hello, without.doubtful) = (true, without.doubtful || doubtful);
                return Ok((connection, None));
            }
            Err(fault) if connection.hung_up => why = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    let mut connection = open_stream(endpoint).await?;
    log_in_without_hello(&mut connection, endpoint).await.map_err(|fault| {
        if !connection.hung_up {
            return fault;
        }
        let fault = why.unwrap_or(fault);
        // A server that expects TLS may close a plain connection without a reply.
        if endpoint.is_tls() {
            fault
        } else {
            fault.hinting("if this is a TLS port, write rediss:// instead of redis://")
        }
    })?;
    // Only the end of a connection was the reason, unless an earlier call found another one.
    without.doubtful |= !std::mem::replace(&mut without.hello, true);
    Ok((connection, None))
}

async fn open_stream(endpoint: &Endpoint) -> Result<BatchConnection, Fault> {
    let stream = Stream::connect(endpoint).await.map_err(|error| cannot_connect(&error))?;
    Ok(BatchConnection::over(stream))
}
