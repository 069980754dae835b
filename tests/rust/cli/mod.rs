//! The command line `redlock`.

pub(crate) mod command;
mod flock;
mod looking;
mod run;
#[cfg(target_os = "linux")]
mod terminal;
mod usage;
