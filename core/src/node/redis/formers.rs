//! Tracks previous connections, whose bytes may still be under way.
//!
//! A node may return to a server that it had left, so the last connection to each run of a server is remembered.

use redis::{Value, cmd};

use super::handshake::Greeting;
use crate::node::Fault;

/// The number of servers to remember. No bytes of earlier connections can still be under way.
const MOST: usize = 8;

/// A connection that broke. Its bytes may still arrive, unless the server closes it first.
#[derive(Clone)]
struct Former {
    /// The run of the server. The connection ID is only valid there.
    run_id: Option<String>,
    id: Option<i64>,
}

/// The last connection to each run of a server, newest first.
#[derive(Clone, Default)]
pub(super) struct Formers(Vec<Former>);

impl Formers {
    /// Records a new connection, which will be a previous one however it ends.
    pub(super) fn add(&mut self, greeting: &Greeting) {
        // Connections to a server without a run ID cannot be distinguished.
        self.0.retain(|former| former.run_id.is_some() && former.run_id != greeting.run_id);
        self.0.truncate(MOST - 1);
        self.0.insert(0, Former { run_id: greeting.run_id.clone(), id: greeting.id });
    }

    /// Has the server close its previous connection. Returns true if no bytes of any previous connection can still
    /// arrive there.
    ///
    /// A reset does not guarantee that: its bytes may be anywhere on the way, and only the server can stop reading
    /// them. If the server does not allow closing it, deletes are repeated for as long as a key can live.
    pub(super) async fn kill(&self, greeting: &mut Greeting) -> Result<bool, Fault> {
        let unknown = self.0.iter().any(|former| former.run_id.is_none());
        if unknown || greeting.run_id.is_none() {
            return Ok(self.0.is_empty());
        }
        // Another run of the server does not know the connection, and its ID may be that of another client.
        let same = self.0.iter().find(|former| former.run_id == greeting.run_id);
        let Some(former) = same else { return Ok(true) };
        // Without an ID, the server cannot close the connection.
        let Some(id) = former.id else { return Ok(false) };
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id);
        let answers = greeting.talk.ask(&[kill]).await?;
        // The reply is the number of closed connections. Zero means that the connection was already gone. An error
        // means that the user lacks the right.
        Ok(matches!(answers[..], [Value::Int(_)]))
    }
}
