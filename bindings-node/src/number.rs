//! The numbers that identify calls and leases between JavaScript and Rust.

/// The number of a call, of the lease that a call acquires, or of the functions of a client.
///
/// Numbers increase and are never reused, so a number always identifies the same lease. JavaScript represents them
/// exactly up to 2^53, which is enough for 285 years at a million calls per second.
pub(crate) type Number = i64;

/// Converts the number to a column of a row.
#[allow(clippy::cast_precision_loss, reason = "numbers and times in µs stay below 2^53")]
pub(crate) fn column(number: Number) -> f64 {
    number as f64
}
