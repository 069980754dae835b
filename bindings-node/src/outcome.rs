//! What a call came to, and its shape in JavaScript.

use napi::bindgen_prelude::{Null, ToNapiValue};
use napi::sys;
use redlock::ffi::{Answer, Record};

use crate::errors::Failure;
use crate::inspection::Inspection;
use crate::number::Number;
use crate::step::Step;

/// A call that came to its end.
pub(crate) struct Ended {
    /// Where JavaScript waits for it.
    pub(crate) slot: u32,
    /// Which of the slot's calls it is.
    pub(crate) number: Number,
    /// What it came to.
    pub(crate) outcome: Outcome,
}

/// What a call came to.
pub enum Outcome {
    /// A lease is kept under the call's own number from then on; none where one round was not enough.
    Acquired(redlock::Result<Option<redlock::Lease>>),
    /// As a lease, of another process perhaps: one that nobody picks up is left as it is.
    Attached(redlock::LeaseHandle),
    /// The lease of this number is over, as its owner wished.
    Released(Number),
    /// An answer.
    Yes(bool),
    /// An answer.
    Count(u32),
    /// Nothing is to be told.
    Done,
    /// An answer.
    Inspection(Box<redlock::Inspection>),
    /// It failed.
    Failed(redlock::Error),
    /// The lease of this number, and why. No call's outcome.
    Lost(Number, redlock::Error),
    /// Something that the program should know. No call's outcome.
    Warning(String),
    /// What was done, and how many such steps were dropped before it. No call's outcome.
    Step(Box<Record>, usize),
    /// A function is asked for credentials. No call's outcome.
    Asked(Answer),
    /// The future panicked.
    Broken,
}

impl Outcome {
    /// Whether JavaScript throws it.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Broken)
    }
}

impl ToNapiValue for Outcome {
    unsafe fn to_napi_value(env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: the caller's promise, passed on.
        unsafe {
            match value {
                Self::Acquired(_)
                | Self::Attached(_)
                | Self::Released(_)
                | Self::Asked(_)
                | Self::Done => Null::to_napi_value(env, Null),
                Self::Yes(yes) => bool::to_napi_value(env, yes),
                Self::Count(count) => u32::to_napi_value(env, count),
                Self::Inspection(seen) => ToNapiValue::to_napi_value(env, Inspection::from(*seen)),
                Self::Failed(error) | Self::Lost(_, error) => {
                    ToNapiValue::to_napi_value(env, Failure::from(&error))
                }
                Self::Warning(text) => String::to_napi_value(env, text),
                Self::Step(step, dropped) => {
                    ToNapiValue::to_napi_value(env, Step::of(&step, dropped))
                }
                Self::Broken => ToNapiValue::to_napi_value(env, Failure::internal()),
            }
        }
    }
}
