//! The protocol of one connection, without I/O: it works with commands, bytes and values, and never waits.
//!
//! The [`Encoder`] writes and the [`Decoder`] reads. They share only the list of the expected replies. A reply that leads
//! to a command is passed from the decoder to the encoder like any other command. The time is an argument.
//!
//! A command whose reply is lost fails. If it is a delete, it becomes pending ([`pending_deletes`]).
//! [`super::session`] moves the bytes.

mod combined;
mod command;
mod confirm;
mod decoder;
mod encoder;
mod pending_deletes;
mod push_handler;
mod replies;
mod resp;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use command::{
    BatchKind, Combinable, Command, Expects, InFlight, Purpose, Redirects, TIMEOUT,
};
#[cfg(test)]
pub(crate) use confirm::{ConfirmRequests, HeldGrants};
pub(super) use decoder::Decoder;
pub(super) use encoder::Encoder;
pub(super) use pending_deletes::{PendingDeletes, UnsentVotes};
pub(super) use push_handler::PushHandler;
pub(super) use resp::Parser;

/// The interval for detecting a silent server. It is a quarter of the shortest silence that counts, which limits the
/// delay.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// A server with open commands that is silent for this long is dead, unless a caller waits longer.
///
/// The deadline of a vote does not close a connection. A single short TTL must not cost a long lease its connection.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
/// The maximum length of a reply. No memory is spent on the rest of a longer one. The parser reserves nothing for what a
/// header announces.
pub(super) const LARGEST: usize = 1 << 20;
