//! The Python extension module. `runtime` lists the hazards between Rust threads and Python, so read it first.
//!
//! The groups of modules are listed from top to bottom, and each uses only modules below it. architecture.md has the
//! order that a test checks. Python code calls this module. This module uses only the error classes of the Python code.

#![allow(
    clippy::doc_markdown,
    reason = "what documents a Python item is its docstring, and plain text"
)]

use pyo3::prelude::*;

#[cfg(feature = "panics")]
mod panic;

mod command_line;

mod testing;

mod classes;

mod describe;
mod pickle;

mod leader;
mod once;

mod bodies;
mod function_macros;
mod rwlock;

mod client;
mod construct;
mod lock;

mod inspection;
mod lease;
mod stats;

mod snapshots;
mod source;

mod call_site;
mod caller;
mod owner;
mod registry;

mod options;

mod address_map;
mod credentials;

mod callbacks;

mod args;

mod runtime;

mod errors;

mod unsupported;

mod once_cell;

/// The Rust half of `redlock`.
#[pymodule]
mod _native {
    /// The package's version, which is that of the crate and of the npm package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "as Python spells it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::classes::make;
    #[pymodule_export]
    use crate::client::ping::{NodePing, Ping};
    #[pymodule_export]
    use crate::command_line::command_line;
    #[pymodule_export]
    use crate::construct::{AsyncRedlock, Redlock, configure};
    #[pymodule_export]
    use crate::describe::{lock, semaphore};
    #[pymodule_export]
    use crate::errors::conclude_client;
    #[pymodule_export]
    use crate::inspection::{Inspection, NodeInspection};
    #[pymodule_export]
    use crate::leader::{AsyncLeader, Leader, leader};
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::lease::async_lease::AsyncLease;
    #[pymodule_export]
    use crate::lock::Lock;
    #[pymodule_export]
    use crate::lock::acquire::Acquire;
    #[pymodule_export]
    use crate::lock::async_lock::AsyncLock;
    #[pymodule_export]
    use crate::once::{AsyncOnce, Once, once};
    #[cfg(feature = "panics")]
    #[pymodule_export]
    use crate::panic::_panic_for_tests;
    #[pymodule_export]
    use crate::pickle::{
        unpickled_client, unpickled_leader, unpickled_lock, unpickled_once, unpickled_rwlock,
    };
    #[pymodule_export]
    use crate::runtime::async_backends::set_trio;
    #[pymodule_export]
    use crate::runtime::log::{log_by, log_from};
    #[pymodule_export]
    use crate::runtime::observe::observe_by;
    #[pymodule_export]
    use crate::rwlock::{AsyncRwLock, RwLock, rwlock};
    #[pymodule_export]
    use crate::snapshots::unpickled_snapshot;
    #[pymodule_export]
    use crate::stats::Stats;
    #[pymodule_export]
    use crate::testing::{Steps, advance_memory, fail_memory, now, step_memory, swap_default};
}
