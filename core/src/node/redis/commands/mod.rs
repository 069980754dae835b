//! Defines what a lock asks a server: the bytes of each command, and the meaning of its reply.
//!
//! A node gets its commands with scripts ([`scripts`]). A reply is checked by its exact form ([`reply`]), and explained
//! if it is an error ([`errors`]).

pub(super) mod capabilities;
pub(super) mod command;
pub(super) mod durability;
pub(super) mod encode;
pub(super) mod errors;
pub(super) mod reply;
mod script;
pub(super) mod scripts;
