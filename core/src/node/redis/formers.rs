//! Connections that ended, as their successors know them: their bytes may be anywhere on the way.
//!
//! A node may come back to a server that it had left, so the last one to each run of a server is remembered.

use redis::{Value, cmd};

use super::handshake::Greeting;
use crate::node::Fault;

/// A server that was left so many servers ago has no bytes of ours any more.
const MOST: usize = 8;

/// A connection that ended broken: what was sent over it may still arrive, unless its server ends it first.
#[derive(Clone)]
struct Former {
    /// The server that it led to: an id means nothing to another one.
    run_id: Option<String>,
    id: Option<i64>,
}

/// Of each run of a server the connection that ended last, the newest first.
#[derive(Clone, Default)]
pub(super) struct Formers(Vec<Former>);

impl Formers {
    /// From now on the connection is the one to its server, however it ends.
    pub(super) fn add(&mut self, greeting: &Greeting) {
        // Of a server that does not say who it is nothing can be told apart.
        self.0.retain(|former| former.run_id.is_some() && former.run_id != greeting.run_id);
        self.0.truncate(MOST - 1);
        self.0.insert(0, Former { run_id: greeting.run_id.clone(), id: greeting.id });
    }

    /// Has the server end its former connection; true if nothing of any can arrive there any more.
    ///
    /// Its bytes may be anywhere on the way, in spite of the reset: only the server can say that it reads no more
    /// of them. Where it does not allow that, deletes are repeated for as long as a key can live.
    pub(super) async fn kill(&self, greeting: &mut Greeting) -> Result<bool, Fault> {
        let unknown = self.0.iter().any(|former| former.run_id.is_none());
        if unknown || greeting.run_id.is_none() {
            return Ok(self.0.is_empty());
        }
        // Another run of the server never knew it, and would end a stranger's.
        let same = self.0.iter().find(|former| former.run_id == greeting.run_id);
        let Some(former) = same else { return Ok(true) };
        // A server that does not name its connections cannot be told which one to end.
        let Some(id) = former.id else { return Ok(false) };
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id);
        let answers = greeting.talk.ask(&[kill]).await?;
        // How many it ended: none is as good, it is gone. An error is a right that we lack.
        Ok(matches!(answers[..], [Value::Int(_)]))
    }
}
