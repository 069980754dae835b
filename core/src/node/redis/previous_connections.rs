//! Remembers previous connections, because their bytes may still be under way.
//!
//! A node may reconnect to an earlier server, so the last connection to each run of a server is kept.

use redis::{Value, cmd};

use super::handshake::Greeting;
use crate::node::Fault;

/// The maximum number of server runs. Bytes of even older connections have arrived or are lost.
const MAX_SERVERS: usize = 8;

/// A connection that broke. Its bytes may still arrive, unless the server closes it first.
#[derive(Clone)]
struct PreviousConnection {
    /// The run of the server. The connection ID is only valid there.
    run_id: Option<String>,
    id: Option<i64>,
}

/// The last connection to each run of a server, newest first.
#[derive(Clone, Default)]
pub(super) struct PreviousConnections(Vec<PreviousConnection>);

impl PreviousConnections {
    /// Records a new connection, which becomes the previous one when it ends.
    pub(super) fn add(&mut self, greeting: &Greeting) {
        // Connections to a server without a run ID cannot be distinguished.
        self.0.retain(|previous| previous.run_id.is_some() && previous.run_id != greeting.run_id);
        self.0.truncate(MAX_SERVERS - 1);
        self.0.insert(0, PreviousConnection { run_id: greeting.run_id.clone(), id: greeting.id });
    }

    /// Makes the server close the previous connection. Returns true if no bytes of any previous connection can still
    /// arrive there.
    ///
    /// A reset does not guarantee that: its bytes may still be in the network, and only the server can discard them. If
    /// the server does not allow closing it, deletes are repeated for as long as a key can live.
    pub(super) async fn kill(&self, greeting: &mut Greeting) -> Result<bool, Fault> {
        let unknown = self.0.iter().any(|previous| previous.run_id.is_none());
        if unknown || greeting.run_id.is_none() {
            return Ok(self.0.is_empty());
        }
        // Another run of the server does not know the connection, and its ID may be that of another client.
        let same = self.0.iter().find(|previous| previous.run_id == greeting.run_id);
        let Some(previous) = same else { return Ok(true) };
        // Without an ID, the server cannot close the connection.
        let Some(id) = previous.id else { return Ok(false) };
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id);
        let answers = greeting.connection.ask(&[kill]).await?;
        // The reply is the number of closed connections. Zero means that the connection was already gone. An error
        // means that the user lacks the right.
        Ok(matches!(answers[..], [Value::Int(_)]))
    }
}
