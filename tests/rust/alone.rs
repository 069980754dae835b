//! Tests that the others, of which many count in milliseconds, would not bear beside them.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

mod fake;
mod floods;
mod fuzz;
#[cfg(target_os = "linux")]
mod limit;
mod replies;
mod scarce;
mod support;
