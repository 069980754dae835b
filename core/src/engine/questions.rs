//! Asks every server of the nodes the questions of a diagnosis.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::node::ServerReplies;
use crate::quorum::Nodes;

/// The replies of a node to the questions of a diagnosis.
#[derive(Clone, Debug)]
pub struct NodeReplies {
    /// The node's URL, without its password.
    pub url: String,
    /// The replies of its server, or of each server of a cluster. Otherwise why there are none.
    pub servers: Result<Vec<ServerReplies>, String>,
}

/// Sends these commands to every server over separate connections. Takes at most `connect_timeout`.
pub(crate) async fn questions(nodes: &Nodes, commands: Vec<Vec<String>>) -> Vec<NodeReplies> {
    let commands: Arc<[_]> = commands.into();
    let asked = nodes.list.iter().map(|node| (node, node.questions(&commands)));
    let asked = asked.map(|(node, replies)| async move {
        let servers = replies.await.map_err(|fault| fault.to_string());
        NodeReplies { url: node.url().to_owned(), servers }
    });
    join_all(asked.collect::<Vec<_>>()).await
}
