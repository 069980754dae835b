//! A service under a lock: a payment that is made once, and a layer that serves one request at a time.

pub mod layer;
pub mod payments;
