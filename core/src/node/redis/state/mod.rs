//! What a node knows about its connection without a command, for any thread.

pub(crate) mod link;
pub(crate) mod restart_guard;
