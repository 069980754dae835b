//! Calls and outcomes as rows of numbers, in two arrays that both sides share.
//!
//! Crossing between JavaScript and Rust costs more than most acquires and releases do by themselves. So JavaScript
//! writes these calls into one array and crosses once for many; the outcomes come back through the other. Whatever
//! is no number goes beside the rows, in order.

use std::cell::RefCell;

use napi::bindgen_prelude::Float64Array;
use napi_derive::napi;

/// Columns of a call: which operation, of which lock or lease, the slot that hears of it, and its argument.
#[napi]
pub const CALL_COLUMNS: u32 = 4;
/// Acquire that lock; the argument is `wait`, not a number for the lock's own.
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

/// One call, as JavaScript wrote it.
pub(crate) struct Call {
    pub(crate) operation: u32,
    pub(crate) of: u32,
    pub(crate) slot: u32,
    pub(crate) argument: Option<f64>,
}

/// What is left of an outcome once the lease, if there is one, is known here.
pub(crate) struct Row {
    pub(crate) slot: f64,
    pub(crate) value: f64,
    pub(crate) token: [i32; 4],
    pub(crate) fence: f64,
}

impl Row {
    /// The rest is beside the rows: an answer.
    pub(crate) const ANSWER: f64 = f64::NAN;
    /// The rest is beside the rows: a failure.
    pub(crate) const FAILURE: f64 = f64::INFINITY;

    pub(crate) fn plain(slot: f64, value: f64) -> Self {
        Self { slot, value, token: [0; 4], fence: 0.0 }
    }
}

/// The two arrays; only the JavaScript thread touches them.
pub(crate) struct Rows {
    calls: Float64Array,
    outcomes: RefCell<Float64Array>,
}

impl Rows {
    pub(crate) fn new(calls: Float64Array, outcomes: Float64Array) -> Self {
        Self { calls, outcomes: RefCell::new(outcomes) }
    }

    /// How many outcomes fit.
    pub(crate) fn room(&self) -> usize {
        self.outcomes.borrow().len() / OUTCOME_COLUMNS as usize
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole numbers that this package's own JavaScript wrote; others would saturate"
    )]
    pub(crate) fn call(&self, at: usize) -> Option<Call> {
        let row = self.calls.chunks_exact(CALL_COLUMNS as usize).nth(at)?;
        let argument = (!row[3].is_nan()).then_some(row[3]);
        Some(Call { operation: row[0] as u32, of: row[1] as u32, slot: row[2] as u32, argument })
    }

    pub(crate) fn write(&self, at: usize, row: &Row) {
        let mut outcomes = self.outcomes.borrow_mut();
        // SAFETY: JavaScript does not run while this does, and no other reference into the array exists.
        let outcomes = unsafe { outcomes.as_mut() };
        if let Some(place) = outcomes.chunks_exact_mut(OUTCOME_COLUMNS as usize).nth(at) {
            let [a, b, c, d] = row.token.map(f64::from);
            place.copy_from_slice(&[row.slot, row.value, a, b, c, d, row.fence]);
        }
    }
}

/// A token of 32 hex digits as four integers; nothing for any other, which only `attach` can bring.
pub(crate) fn integers(token: &str) -> Option<[i32; 4]> {
    if token.len() != 32 {
        return None;
    }
    let whole = u128::from_str_radix(token, 16).ok()?;
    let bytes = whole.to_be_bytes();
    let part =
        |at: usize| i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Some([part(0), part(4), part(8), part(12)])
}
