//! Redis as a node. This file only re-exports. From the top down, and each folder uses only those below it:
//!
//! | folder | duty |
//! |---|---|
//! | [`cluster`] | a Redis Cluster as one node: the owner of each slot, and where redirected commands go |
//! | [`server`] | a Redis server as a node: turns methods into commands for the queue of its connection |
//! | [`node_task`] | when to connect and to reconnect |
//! | [`connection::task`] | the work of an open connection that no caller waits for, and the state that outlives a connection |
//! | [`connect`] | one attempt to open a connection: features, rights, role |
//! | [`sentinel`] | finds the primary of a service |
//! | [`login`] | opens a stream, logs in and selects the protocol |
//! | [`connection`] | the open connection, which waiting threads and its task use in turn |
//! | [`protocol`] | without I/O: which commands are sent, whose reply it is, what a lost reply leads to |
//! | [`url`] | what the URL of a node means: its servers, the login, parameters |
//! | [`state`] | what a node knows about its connection without a command |
//! | [`io`] | sockets, TCP, TLS |
//! | [`commands`] | what a lock asks a server, and what the replies and errors mean |
//!
//! The `redis` crate encodes, parses and reads URLs. No other folder uses it.

mod cluster;
mod commands;
mod connect;
mod connection;
mod io;
mod login;
mod node_task;
mod protocol;
mod sentinel;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod url;

pub(crate) use cluster::ClusterNode;
pub(crate) use commands::capabilities::Needs;
pub(crate) use commands::durability::Durability;
#[cfg(feature = "simulation")]
pub(crate) use commands::scripts::{Operation, Script, script, scripts};
pub use connect::questions::ServerReplies;
pub(crate) use io::endpoint::{Given, Parameters};
pub use io::tls::{DefaultTrust, Pem, TlsOptions};
pub(crate) use protocol::{RunIds, Target};
pub(crate) use server::RedisNode;
pub(crate) use url::query::{CLIENT_NAME_RULE, is_client_name};
pub(crate) use url::route::{Route, parse_cluster, parse_service};
pub(crate) use url::{CONNECT_TIMEOUT, SharedSettings};
