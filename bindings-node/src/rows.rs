//! Calls and outcomes as rows of numbers, in two arrays that JavaScript and Rust share.
//!
//! Crossing between JavaScript and Rust costs more than the work of most acquires and releases. JavaScript therefore
//! writes calls into one array and crosses once for many of them. The outcomes return in the other array. Values that
//! are not numbers are passed as side values, in order.
//!
//! The enums are exported, so that `rows.ts` uses the same columns and codes.

use std::ptr::NonNull;

use napi::bindgen_prelude::Float64ArraySlice;
use napi_derive::napi;

use crate::number::{Number, column};

/// The version of the package that these rows belong to. Another version may use other rows.
#[napi]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The columns of a call.
#[napi]
pub enum CallColumn {
    /// An `Operation`.
    Operation,
    /// The number of an option set or of a lease.
    Target,
    /// The slot for the outcome.
    Slot,
    /// The argument, or NaN for none.
    Argument,
}

/// Number of columns of a call.
#[napi]
pub const CALL_COLUMNS: u32 = CallColumn::Argument as u32 + 1;

/// What a call does.
#[napi]
#[derive(Clone, Copy)]
pub enum Operation {
    /// Acquires a lock with an option set. The names are a side value. The argument is `wait`, by default that of the
    /// lock.
    Acquire,
    /// Releases a lease. The argument is a number after a body that succeeded.
    Release,
}

/// The columns of an outcome.
#[napi]
pub enum OutcomeColumn {
    /// The slot of the call, or a `Notice`.
    Slot,
    /// The number of a lease, or an `OutcomeValue`. For a notice, the number of a lease or of the functions of a
    /// client.
    Value,
    /// The first 32 bits of the lease's token.
    Token0,
    /// The second 32 bits.
    Token1,
    /// The third 32 bits.
    Token2,
    /// The last 32 bits.
    Token3,
    /// The lease's fencing token, or 0.
    Fence,
}

/// Number of columns of an outcome.
#[napi]
pub const OUTCOME_COLUMNS: u32 = OutcomeColumn::Fence as u32 + 1;

/// The value of an outcome without a lease. The number of a lease is positive.
#[napi]
pub enum OutcomeValue {
    /// No result.
    Nothing = 0,
    /// A result that is a side value.
    SideValue = -1,
    /// A failure, which is a side value.
    Failure = -2,
}

/// What a row reports that is not the outcome of a call. Slots of calls are not negative.
#[napi]
pub enum Notice {
    /// A warning, which is a side value.
    Warning = -1,
    /// The loss of the lease with this number. The failure is a side value.
    Loss = -2,
    /// A request to call the credentials function of the client with this number.
    Credentials = -3,
    /// An event for subscribers, which is a side value.
    Event = -4,
    /// A request to call the address map of the client with this number.
    AddressMap = -5,
}

impl Operation {
    fn from_number(number: i32) -> Option<Self> {
        [Self::Acquire, Self::Release].into_iter().find(|known| *known as i32 == number)
    }
}

/// One call, as JavaScript wrote it.
pub(crate) struct Call {
    /// What it does. None for an unknown operation.
    pub(crate) operation: Option<Operation>,
    /// Number of an option set or of a lease.
    pub(crate) target: Number,
    /// The slot that receives the outcome.
    pub(crate) slot: u32,
    /// The argument, if there is one.
    pub(crate) argument: Option<f64>,
}

/// The row of an outcome, after its lease was stored.
pub(crate) struct Row {
    slot: f64,
    value: f64,
    token: [i32; 4],
    fence: f64,
}

impl Row {
    /// The row of a call without a lease.
    pub(crate) fn plain(slot: u32, value: OutcomeValue) -> Self {
        Self { slot: slot.into(), value: f64::from(value as i32), token: [0; 4], fence: 0.0 }
    }

    /// The row of a call that returned the lease with this number.
    pub(crate) fn lease(slot: u32, lease: Number, token: &str, fence: Option<Number>) -> Self {
        // Four zeros are not the token of any lease. JavaScript then reads the whole token.
        let token = integers(token).unwrap_or_default();
        Self { slot: slot.into(), value: column(lease), token, fence: fence.map_or(0.0, column) }
    }

    /// A row that is not the outcome of a call, with the number of a lease or of the functions of a client.
    pub(crate) fn notice(notice: Notice, number: Number) -> Self {
        Self { slot: f64::from(notice as i32), value: column(number), token: [0; 4], fence: 0.0 }
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
/// `Runtime` and to the `settle` callback (`connection.ts`), so they exist whenever either side calls the other.
pub(crate) struct Rows {
    calls: SharedArray,
    outcomes: SharedArray,
}

impl Rows {
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
        let row = unsafe { row.read() };
        let column = |column: CallColumn| row[column as usize];
        let argument = column(CallColumn::Argument);
        Some(Call {
            operation: Operation::from_number(column(CallColumn::Operation) as i32),
            target: column(CallColumn::Target) as Number,
            slot: column(CallColumn::Slot) as u32,
            argument: (!argument.is_nan()).then_some(argument),
        })
    }

    /// Writes an outcome into this row, if the row exists.
    pub(crate) fn write(&self, at: usize, row: &Row) {
        let Some(first) = self.outcomes.row(at, OUTCOME_COLUMNS) else { return };
        let mut columns = [0.0; OUTCOME_COLUMNS as usize];
        columns[OutcomeColumn::Slot as usize] = row.slot;
        columns[OutcomeColumn::Value as usize] = row.value;
        for (at, part) in (OutcomeColumn::Token0 as usize..).zip(row.token) {
            columns[at] = part.into();
        }
        columns[OutcomeColumn::Fence as usize] = row.fence;
        // SAFETY: JavaScript does not run during this write, and nothing refers to the array.
        unsafe { first.cast::<[f64; OUTCOME_COLUMNS as usize]>().write(columns) };
    }
}

/// Converts a token of 32 hex digits to four integers. Other tokens return `None`: those with a label, and some from
/// `attach`.
fn integers(token: &str) -> Option<[i32; 4]> {
    if token.len() != 32 {
        return None;
    }
    let part =
        |at: usize| Some(u32::from_str_radix(token.get(at..at + 8)?, 16).ok()?.cast_signed());
    Some([part(0)?, part(8)?, part(16)?, part(24)?])
}
