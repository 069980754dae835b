//! Node binding of `redlock-native`: arguments in, core call, result out.
//!
//! From the top down: `client`, `lock` and `lease` are what JavaScript asks for, `calls` how it asks for many at once, and
//! `runtime` every hazard between Rust's threads and JavaScript's. `panic` serves the tests alone, and only their build has
//! it. What JavaScript users see is in `index.ts`; nothing here is public API.

#![allow(clippy::needless_pass_by_value, reason = "napi hands owned values to every export")]
#![allow(
    unreachable_pub,
    reason = "exports are reached from JavaScript, which no module path shows"
)]

mod batch;
mod calls;
mod client;
mod credentials;
mod errors;
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
mod runtime;
mod stats;
mod step;
