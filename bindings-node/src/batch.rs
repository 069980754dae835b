//! Batches of calls and of outcomes: rows of numbers in two arrays that both sides share.
//!
//! Crossing between JavaScript and Rust costs more than most acquires and releases do by themselves. So JavaScript
//! writes these calls into one array and crosses once for many; the outcomes come back through the other. Whatever
//! is no number goes beside the rows, in order.

use std::ptr::NonNull;

use napi::bindgen_prelude::Float64ArraySlice;
use napi_derive::napi;

use crate::number::{Number, column};

/// Whose rows these are: another version of the package may write others.
#[napi]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Columns of a call: which operation, of which option set or lease, the slot that hears of it, and its argument.
#[napi]
pub const CALL_COLUMNS: u32 = 4;
/// Acquire a lock with these options, whose names go beside the row; the argument is `wait`, not a number for the options' own.
#[napi]
pub const ACQUIRE: u32 = 0;
/// Release that lease.
#[napi]
pub const RELEASE: u32 = 1;

/// Columns of an outcome: its slot, its value, the token as four 32-bit integers, the fencing token or 0.
#[napi]
pub const OUTCOME_COLUMNS: u32 = 7;
/// Not a call's outcome, but a warning for everybody.
#[napi]
pub const WARNING: i32 = -1;
/// Not a call's outcome: the lease of this number is lost.
#[napi]
pub const LOSS: i32 = -2;
/// Not a call's outcome: the function of this number is asked for credentials.
#[napi]
pub const CREDENTIALS: i32 = -3;
/// Not a call's outcome, but a step for whoever listens.
#[napi]
pub const STEP: i32 = -4;

/// One call, as JavaScript wrote it.
pub(crate) struct Call {
    /// One of those above.
    pub(crate) operation: u32,
    /// Number of an option set or of a lease.
    pub(crate) of: Number,
    /// Who hears of the outcome.
    pub(crate) slot: u32,
    /// If one was given.
    pub(crate) argument: Option<f64>,
}

/// What is left of an outcome once the lease, if there is one, is known here.
pub(crate) struct Row {
    /// Who hears of it, or one of the negative numbers above.
    pub(crate) slot: f64,
    /// A lease's number, 0 for nothing to tell, or one of the two below.
    pub(crate) value: f64,
    /// The lease's token.
    pub(crate) token: [i32; 4],
    /// The lease's fencing token, or 0.
    pub(crate) fence: f64,
}

impl Row {
    /// The rest is beside the rows: an answer.
    pub(crate) const ANSWER: f64 = f64::NAN;
    /// The rest is beside the rows: a failure.
    pub(crate) const FAILURE: f64 = f64::INFINITY;

    /// Without a lease.
    pub(crate) fn plain(slot: f64, value: f64) -> Self {
        Self { slot, value, token: [0; 4], fence: 0.0 }
    }

    /// Names a lease, or a credentials function.
    pub(crate) fn numbered(slot: f64, number: Number) -> Self {
        Self::plain(slot, column(number))
    }
}

/// Memory of an array that JavaScript owns, and keeps for as long as it can be called or calls.
struct Shared {
    first: NonNull<f64>,
    numbers: usize,
}

impl Shared {
    fn new(array: &Float64ArraySlice<'_>) -> Self {
        let numbers: &[f64] = array;
        Self { first: NonNull::from(numbers).cast(), numbers: numbers.len() }
    }

    /// One row of so many columns.
    fn row(&self, at: usize, columns: u32) -> Option<NonNull<f64>> {
        let columns = columns as usize;
        let first = at.checked_mul(columns)?;
        let fits = first.checked_add(columns)? <= self.numbers;
        // SAFETY: within the array.
        fits.then(|| unsafe { self.first.add(first) })
    }
}

/// The two arrays; only the JavaScript thread touches them.
///
/// The native part has no reference to them, as that would keep the module which they belong to. Whoever calls it holds
/// `Runtime`, and whom it calls back is held by that too: JavaScript hangs the arrays on these (`runtime.ts`).
pub(crate) struct Batch {
    calls: Shared,
    outcomes: Shared,
}

impl Batch {
    /// Over these arrays.
    pub(crate) fn new(calls: &Float64ArraySlice<'_>, outcomes: &Float64ArraySlice<'_>) -> Self {
        Self { calls: Shared::new(calls), outcomes: Shared::new(outcomes) }
    }

    /// How many outcomes fit.
    pub(crate) fn room(&self) -> usize {
        self.outcomes.numbers / OUTCOME_COLUMNS as usize
    }

    /// The call in this row.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole numbers that this package's own JavaScript wrote; others would saturate"
    )]
    pub(crate) fn call(&self, at: usize) -> Option<Call> {
        let row = self.calls.row(at, CALL_COLUMNS)?.cast::<[f64; CALL_COLUMNS as usize]>();
        // SAFETY: JavaScript does not run while this does.
        let [operation, of, slot, argument] = unsafe { row.read() };
        let argument = (!argument.is_nan()).then_some(argument);
        Some(Call { operation: operation as u32, of: of as Number, slot: slot as u32, argument })
    }

    /// Writes an outcome into this row, if there is one.
    pub(crate) fn write(&self, at: usize, row: &Row) {
        let Some(place) = self.outcomes.row(at, OUTCOME_COLUMNS) else { return };
        let [a, b, c, d] = row.token.map(f64::from);
        let columns = [row.slot, row.value, a, b, c, d, row.fence];
        // SAFETY: JavaScript does not run while this does, and no reference into the array exists.
        unsafe { place.cast::<[f64; OUTCOME_COLUMNS as usize]>().write(columns) };
    }
}

/// A token of 32 hex digits as four integers; nothing for any other, which only `attach` can bring.
pub(crate) fn integers(token: &str) -> Option<[i32; 4]> {
    if token.len() != 32 {
        return None;
    }
    let part =
        |at: usize| Some(u32::from_str_radix(token.get(at..at + 8)?, 16).ok()?.cast_signed());
    Some([part(0)?, part(8)?, part(16)?, part(24)?])
}
