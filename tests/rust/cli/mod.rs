//! The command line `redlock`.

pub(crate) mod command;
mod doctor;
mod flock;
mod list;
mod looking;
mod page;
mod run;
#[cfg(target_os = "linux")]
mod terminal;
mod usage;
