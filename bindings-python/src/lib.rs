//! What Python sees of the Rust core. `runtime` holds every hazard between the two; read it first.

#![allow(
    clippy::doc_markdown,
    reason = "what documents a Python item is its docstring, and plain text"
)]

use pyo3::prelude::*;

mod args;
mod asking;
mod client;
mod default;
mod error;
mod inspection;
mod lease;
mod lock;
#[cfg(feature = "panics")]
mod panic;
mod place;
mod registry;
mod runtime;

/// The Rust half of `redlock`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::client::Redlock;
    #[pymodule_export]
    use crate::default::{configure, lock};
    #[pymodule_export]
    use crate::inspection::{Inspection, NodeInspection};
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::lock::Lock;
    #[cfg(feature = "panics")]
    #[pymodule_export]
    use crate::panic::_panic_for_tests;
}
