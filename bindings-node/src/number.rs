//! The numbers by which JavaScript and Rust name calls and leases to each other.

/// The number of a call, of the lease that a call acquires, or of a credentials function.
///
/// Numbers count up and are never used again, so no lease can take the place of another. JavaScript's numbers are exact
/// up to 2^53: at a million calls a second that is 285 years.
pub(crate) type Number = i64;

/// As a column of a row.
#[allow(clippy::cast_precision_loss, reason = "numbers and times in µs stay below 2^53")]
pub(crate) fn column(number: Number) -> f64 {
    number as f64
}
