//! The options of clients and locks, and the names of locks: their defaults and rules, before anything is sent.

mod address;
pub(crate) mod client;
pub(crate) mod lock;
pub(crate) mod names;

pub(crate) use address::Address;
