//! Node binding of `redlock-native`: arguments in, core call, result out.
//!
//! Reading order: `runtime`, `inbox` and `wake` (every hazard between Rust's threads and JavaScript's), `rows`, `slots`, `calls`, `client`, `lock`, `lease`, `outcome`, `error`, `log`; `panic` serves the tests alone, and only their build has it.
//! What JavaScript users see is in `index.ts`; nothing here is public API.

#![allow(clippy::needless_pass_by_value, reason = "napi hands owned values to every export")]
#![allow(
    unreachable_pub,
    reason = "exports are reached from JavaScript, which no module path shows"
)]

mod calls;
mod client;
mod error;
mod inbox;
mod lease;
mod lock;
mod log;
mod outcome;
#[cfg(feature = "panics")]
mod panic;
mod rows;
mod runtime;
mod slots;
mod wake;
