//! The protocol of one connection, without I/O: it works with commands, bytes and values, and never waits.
//!
//! [`Protocol`] is its state. [`sending`] encodes commands into it, and [`replies`] handles the replies. The time is an
//! argument.
//!
//! A command whose reply is lost fails. If it is a delete, it becomes pending ([`pending_deletes`]).
//! [`super::connection::session`] moves the bytes.

mod backlog;
mod combined;
mod confirm;
mod in_flight;
mod merged_deletes;
mod pending_deletes;
mod push_handler;
pub(crate) mod redirects;
mod replies;
mod resp;
mod sending;
mod state;
mod target;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use backlog::Backlog;
#[cfg(test)]
pub(crate) use confirm::Confirmations;
pub(crate) use in_flight::InFlight;
pub(super) use pending_deletes::PendingDeletes;
pub(super) use push_handler::PushHandler;
pub(super) use resp::Parser;
pub(super) use state::Protocol;
pub(crate) use target::{RunIds, Target};

/// The interval for detecting a silent server. It is half of the shortest silence that counts (that of a probe), which
/// limits the delay.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// A server with open commands that is silent for this long is dead, unless a caller waits longer.
///
/// The deadline of a vote does not close a connection. A single short TTL must not cost a long lease its connection.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
/// The maximum length of a reply. No memory is spent on the rest of a longer one. The parser reserves nothing for what
/// a header announces.
pub(super) const LARGEST: usize = 1 << 20;
/// The maximum length of a reply about a cluster. If each slot has another owner than the one before, a row has some
/// hundred bytes.
pub(super) const LARGEST_MAP: usize = 8 << 20;
