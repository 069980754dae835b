//! Batches of calls and outcomes, as rows of numbers in two arrays that JavaScript and Rust share.
//!
//! Crossing between JavaScript and Rust costs more than the work of most acquires and releases. JavaScript therefore
//! writes calls into one array and crosses once for many of them. The outcomes return in the other array. Values that
//! are not numbers are passed as side values, in order.

use std::ptr::NonNull;

use napi::bindgen_prelude::Float64ArraySlice;
use napi_derive::napi;

use crate::number::{Number, column};

/// The version of the package that these rows belong to. Another version may use other rows.
#[napi]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Number of columns of a call, which are the operation, an option set or lease, the slot for the outcome, and the
/// argument.
#[napi]
pub const CALL_COLUMNS: u32 = 4;
/// Acquires a lock with an option set. The names are a side value. The argument is `wait`, or NaN for the lock's own
/// option.
#[napi]
pub const ACQUIRE: u32 = 0;
/// Releases a lease.
#[napi]
pub const RELEASE: u32 = 1;

/// Number of columns of an outcome, which are its slot, its value, the token as four 32-bit integers, and the fencing
/// token or 0.
#[napi]
pub const OUTCOME_COLUMNS: u32 = 7;
/// Not the outcome of a call, but a warning.
#[napi]
pub const WARNING: i32 = -1;
/// Not the outcome of a call, but the loss of the lease with this number.
#[napi]
pub const LOSS: i32 = -2;
/// Not the outcome of a call, but a request to call the credentials function of the client with this number.
#[napi]
pub const CREDENTIALS: i32 = -3;
/// Not the outcome of a call, but a request to call the address map of the client with this number.
#[napi]
pub const ADDRESS_MAP: i32 = -5;
/// Not the outcome of a call, but an event for subscribers.
#[napi]
pub const EVENT: i32 = -4;

/// One call, as JavaScript wrote it.
pub(crate) struct Call {
    /// `ACQUIRE` or `RELEASE`.
    pub(crate) operation: u32,
    /// Number of an option set or of a lease.
    pub(crate) target: Number,
    /// The slot that receives the outcome.
    pub(crate) slot: u32,
    /// The argument, if there is one.
    pub(crate) argument: Option<f64>,
}

/// The row of an outcome, after its lease was stored.
pub(crate) struct Row {
    /// The slot that receives it, or one of the negative numbers above.
    pub(crate) slot: f64,
    /// The number of a lease, 0 for no value, or one of the two values below.
    pub(crate) value: f64,
    /// The lease's token.
    pub(crate) token: [i32; 4],
    /// The lease's fencing token, or 0.
    pub(crate) fence: f64,
}

impl Row {
    /// A result that is a side value.
    pub(crate) const SIDE_VALUE: f64 = f64::NAN;
    /// A failure that is a side value.
    pub(crate) const FAILURE: f64 = f64::INFINITY;

    /// A row without a lease.
    pub(crate) fn plain(slot: f64, value: f64) -> Self {
        Self { slot, value, token: [0; 4], fence: 0.0 }
    }

    /// A row with the number of a lease or of the functions of a client.
    pub(crate) fn numbered(slot: f64, number: Number) -> Self {
        Self::plain(slot, column(number))
    }
}

/// The memory of an array that JavaScript owns. It stays alive while JavaScript calls Rust or is called by it.
struct SharedArray {
    first: NonNull<f64>,
    numbers: usize,
}

impl SharedArray {
    fn new(array: &Float64ArraySlice<'_>) -> Self {
        let numbers: &[f64] = array;
        Self { first: NonNull::from(numbers).cast(), numbers: numbers.len() }
    }

    /// Returns the row at `at`, if it is inside the array.
    fn row(&self, at: usize, columns: u32) -> Option<NonNull<f64>> {
        let columns = columns as usize;
        let first = at.checked_mul(columns)?;
        let fits = first.checked_add(columns)? <= self.numbers;
        // SAFETY: the row is inside the array.
        fits.then(|| unsafe { self.first.add(first) })
    }
}

/// The two arrays. Only the JavaScript thread uses them.
///
/// Rust holds no reference to them, because that would keep their module alive. JavaScript attaches them to the
/// `Runtime` and to the `settle` callback (`runtime.ts`), so they exist whenever either side calls the other.
pub(crate) struct Batch {
    calls: SharedArray,
    outcomes: SharedArray,
}

impl Batch {
    /// Uses these arrays.
    pub(crate) fn new(calls: &Float64ArraySlice<'_>, outcomes: &Float64ArraySlice<'_>) -> Self {
        Self { calls: SharedArray::new(calls), outcomes: SharedArray::new(outcomes) }
    }

    /// Returns how many outcomes fit.
    pub(crate) fn capacity(&self) -> usize {
        self.outcomes.numbers / OUTCOME_COLUMNS as usize
    }

    /// Reads the call in this row.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole numbers that this package's own JavaScript wrote; others would saturate"
    )]
    pub(crate) fn call(&self, at: usize) -> Option<Call> {
        let row = self.calls.row(at, CALL_COLUMNS)?.cast::<[f64; CALL_COLUMNS as usize]>();
        // SAFETY: JavaScript does not run during this read.
        let [operation, target, slot, argument] = unsafe { row.read() };
        let argument = (!argument.is_nan()).then_some(argument);
        Some(Call {
            operation: operation as u32,
            target: target as Number,
            slot: slot as u32,
            argument,
        })
    }

    /// Writes an outcome into this row, if the row exists.
    pub(crate) fn write(&self, at: usize, row: &Row) {
        let Some(place) = self.outcomes.row(at, OUTCOME_COLUMNS) else { return };
        let [a, b, c, d] = row.token.map(f64::from);
        let columns = [row.slot, row.value, a, b, c, d, row.fence];
        // SAFETY: JavaScript does not run during this write, and nothing refers to the array.
        unsafe { place.cast::<[f64; OUTCOME_COLUMNS as usize]>().write(columns) };
    }
}

/// Converts a token of 32 hex digits to four integers. Other tokens return `None`, and only come from `attach`.
pub(crate) fn integers(token: &str) -> Option<[i32; 4]> {
    if token.len() != 32 {
        return None;
    }
    let part =
        |at: usize| Some(u32::from_str_radix(token.get(at..at + 8)?, 16).ok()?.cast_signed());
    Some([part(0)?, part(8)?, part(16)?, part(24)?])
}
