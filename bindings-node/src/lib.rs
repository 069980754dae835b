//! Node.js binding of `redlock-native`. It converts arguments, calls core and converts results.
//!
//! From the top down, `client`, `lock` and `lease` are the operations for JavaScript, and `sender` starts many of them
//! at once. `runtime` contains all code that crosses between threads of Rust and JavaScript. `panic` is only compiled
//! for the tests. `index.ts` is the public API, and nothing in this crate is public.

#![allow(clippy::needless_pass_by_value, reason = "napi hands owned values to every export")]
#![allow(
    unreachable_pub,
    reason = "exports are reached from JavaScript, which no module path shows"
)]

mod callback_requests;
mod callbacks;
mod client;
mod command_line;
mod errors;
mod event;
mod held;
mod inspection;
mod lease;
mod lock;
mod number;
mod options;
mod outcome;
#[cfg(feature = "panics")]
mod panic;
mod pending;
mod ping;
mod rows;
mod runtime;
mod sender;
mod stats;
