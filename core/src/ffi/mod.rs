//! What the Python and the Node binding share and no Rust user sees. No part of the public interface: it may change at any
//! time.

mod acquire;
mod args;
mod caller;
mod default_nodes;
mod foreign_options;

pub use acquire::{acquire, extend};
pub use args::{ClientArgs, LockArgs, client, lock};
pub use caller::{acquired_at, identity, note_call_site, note_owner};
pub use default_nodes::default_nodes;
pub use foreign_options::instead_of;

pub use crate::acquire::NOT_REENTRANT;
pub use crate::background::{Task, spawn};
pub use crate::lease::Owner;
pub use crate::log::log_in_place;
pub use crate::options::Unit;
pub use crate::per_process::{PerProcess, fork_generation};
pub use crate::quorum::{Tally, drift};
pub use crate::spelling::spell_in_camel_case;
pub use crate::text::shown;
