//! Tests that would disturb the others, of which many depend on milliseconds.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

mod fake;
mod fuzz;
#[cfg(target_os = "linux")]
#[path = "../../core/src/tests/limit.rs"]
mod limit;
mod resource_limits;
mod support;
